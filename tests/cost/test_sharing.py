"""Rates are max-min fair at every moment, as naive progressive filling finds them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palmette.cost.sharing import Flows, Path

quick = settings(max_examples=150, deadline=None, derandomize=True)
Times = dict[int, float]


def naive_rates(capacities: Sequence[float], paths: Mapping[int, Path]) -> dict[int, float]:
    """Grow all rates together; those on a resource that is full stop there, the others grow on."""
    rates: dict[int, float] = {}
    while len(rates) < len(paths):
        growing = [flow for flow in paths if flow not in rates]
        levels = {
            r: (capacities[r] - sum(rates[f] for f in rates if r in paths[f])) / sum(r in paths[f] for f in growing)
            for r in {r for f in growing for r in paths[f]}
        }
        least = min(levels.values())
        full = [r for r, level in levels.items() if level <= least * (1 + 1e-12)]
        rates.update({f: least for f in growing if any(r in paths[f] for r in full)})
    return rates


def naive_ends(capacities: Sequence[float], flows: Sequence[tuple[float, Path, float]]) -> Times:
    """When flows (begin, path, bits) end, with all rates found anew at every moment."""
    now, left, ends = 0.0, {k: bits for k, (_, _, bits) in enumerate(flows)}, {}
    while len(ends) < len(flows):
        under_way = {k: flows[k][1] for k in left if flows[k][0] <= now}
        rates = naive_rates(capacities, under_way)
        coming = [flows[k][0] for k in left if flows[k][0] > now]
        then = min([now + left[k] / rate for k, rate in rates.items()] + coming)
        for k, rate in rates.items():
            if now + left[k] / rate <= then * (1 + 1e-12):
                ends[k] = then
                del left[k]
            else:
                left[k] -= rate * (then - now)
        now = then
    return ends


def rates_of(flows: Flows) -> dict[int, float]:
    """The rate that each transfer under way has now."""
    return {flow.number: flow.rate_bps for path in flows._on_path.values() for flow in path}


def played_ends(capacities: Sequence[float], flows: Sequence[tuple[float, Path, float]]) -> Times:
    """The same from ``Flows``, which has to be fair and within capacity after every change."""
    table, ends = Flows(capacities), {}
    coming = sorted(range(len(flows)), key=lambda k: flows[k][0])
    soonest = math.inf
    while coming or soonest < math.inf:
        begin = flows[coming[0]][0] if coming else math.inf
        now = min(begin, soonest)
        if soonest <= begin:
            ended = table.end(now, now * (1 + 1e-12))
            assert ended
            ends.update(dict.fromkeys(ended, now))
        while coming and flows[coming[0]][0] <= now:
            k = coming.pop(0)
            table.begin(k, flows[k][1], flows[k][2], now)
        soonest = table.share(now)
        assert_max_min(capacities, {k: flows[k][1] for k in rates_of(table)}, rates_of(table))
    return ends


def assert_max_min(capacities: Sequence[float], paths: Mapping[int, Path], rates: Mapping[int, float]) -> None:
    """No resource is over its capacity; each flow has a full one on which none is faster."""
    used = [sum(rates[f] for f in paths if r in paths[f]) for r in range(len(capacities))]
    assert all(use <= capacity * (1 + 1e-9) for use, capacity in zip(used, capacities, strict=True))
    for flow, path in paths.items():
        assert any(
            used[r] >= capacities[r] * (1 - 1e-9)
            and rates[flow] >= max(rates[f] for f in paths if r in paths[f]) * (1 - 1e-9)
            for r in path
        ), f"flow {flow} has no bottleneck"


capacity = st.one_of(st.integers(1, 10).map(float), st.floats(1, 1e6))
bits = st.one_of(st.integers(1, 20).map(float), st.floats(1e-3, 1e6))
begin = st.one_of(st.just(0.0), st.integers(0, 5).map(float), st.floats(0, 100))


@st.composite
def flow_sets(draw: st.DrawFn, most: int) -> tuple[list[float], list[tuple[float, Path, float]]]:
    capacities = draw(st.lists(capacity, min_size=1, max_size=5))
    paths = st.lists(st.sampled_from(range(len(capacities))), min_size=1, max_size=4, unique=True).map(tuple)
    few = draw(st.lists(paths, min_size=1, max_size=6))  # so that several take the same path
    flow = st.tuples(begin, st.sampled_from(few), bits)
    return capacities, draw(st.lists(flow, min_size=1, max_size=most))


@quick
@given(flow_sets(most=12))
def test_transfers_end_when_naive_max_min_says(case: tuple[list[float], list[tuple[float, Path, float]]]) -> None:
    capacities, flows = case
    assert played_ends(capacities, flows) == pytest.approx(naive_ends(capacities, flows), rel=1e-9)


@settings(quick, max_examples=15)
@given(flow_sets(most=60))
def test_many_transfers_too(case: tuple[list[float], list[tuple[float, Path, float]]]) -> None:
    capacities, flows = case
    assert played_ends(capacities, flows) == pytest.approx(naive_ends(capacities, flows), rel=1e-9)


@quick
@given(st.integers(1, 40), st.floats(1, 1e9), st.floats(1, 1e9))
def test_equal_transfers_end_at_the_same_time(many: int, capacity: float, size: float) -> None:
    table = Flows([capacity])
    for k in range(many):
        table.begin(k, (0,), size, 0.0)
    end = table.share(0.0)
    assert end == pytest.approx(many * size / capacity)
    assert sorted(table.end(end, end * (1 + 1e-12))) == list(range(many))
    assert table.share(end) == math.inf


def test_paths_with_private_caps_share_the_uplink_like_water() -> None:
    # Private links of 1, 3 and 9 bit/s into an uplink of 10: 1, 3 and the rest, 6.
    capacities = [10.0, 1.0, 3.0, 9.0]
    table = Flows(capacities)
    for k in (1, 2, 3):
        table.begin(k, (k, 0), 100.0, 0.0)
    table.share(0.0)
    assert rates_of(table) == pytest.approx({1: 1, 2: 3, 3: 6})


def test_several_transfers_on_one_path_share_its_cap() -> None:
    table = Flows([10.0, 4.0, 100.0])
    for k, path in enumerate([(1, 0), (1, 0), (2, 0)]):
        table.begin(k, path, 100.0, 0.0)
    table.share(0.0)
    assert rates_of(table) == pytest.approx({0: 2, 1: 2, 2: 6})


def test_the_order_of_beginning_does_not_matter() -> None:
    paths = [(0,), (0, 1), (1,), (1, 2), (2, 0)]
    ends = []
    for order in (range(5), reversed(range(5))):
        table = Flows([3.0, 5.0, 7.0])
        for k in order:
            table.begin(k, paths[k], 10.0, 0.0)
        table.share(0.0)
        ends.append(rates_of(table))
    assert ends[0] == pytest.approx(ends[1])


def test_a_transfer_whose_path_is_joined_and_left_again_ends_once() -> None:
    # Four share 12 bit/s; 3 joins the path of 0 and leaves it again.
    paths = [(1, 0), (2, 0), (3, 0), (1, 0)]
    flows = [(0.0, path, bits) for path, bits in zip(paths, (30.0, 20.0, 90.0, 6.0), strict=True)]
    ends = played_ends([12.0, 100.0, 100.0, 100.0], flows)
    assert ends == pytest.approx({3: 2, 1: 5.5, 0: 5.5 + 10 / 6, 2: 73 / 6})


def test_a_transfer_that_is_slowed_down_is_not_said_to_end_as_before() -> None:
    # 3 runs at its cap of 5 bit/s from 1 s on, and would end at 2.2 s; but 4 leaves it 2.5 bit/s from 2 s on.
    flows = [(0.0, (0, 1), 1.0)] * 3 + [(1.0, (2, 1), 6.0), (2.0, (1,), 1.0)]
    assert played_ends([1.0, 6.0, 5.0], flows) == pytest.approx({0: 3, 1: 3, 2: 3, 3: 2.4, 4: 2.4})


def test_a_new_capacity_changes_the_rates() -> None:
    capacities = [10.0, 4.0]
    table = Flows(capacities)
    table.begin(0, (0,), 100.0, 0.0)
    table.begin(1, (1, 0), 100.0, 0.0)
    table.share(0.0)
    assert rates_of(table) == {0: 6, 1: 4}
    for capacity, rates in ((0.0, {0: 10, 1: 0}), (7.0, {0: 5, 1: 5}), (3.0, {0: 7, 1: 3})):
        capacities[1] = capacity
        table.renew(1, 0.0)
        table.share(0.0)
        assert rates_of(table) == rates


def test_a_resource_of_no_capacity_holds_its_transfers_up() -> None:
    capacities = [0.0, 8.0]
    table = Flows(capacities)
    for k, path in enumerate([(0,), (0, 1), (1,)]):
        table.begin(k, path, 8.0, 0.0)
    assert table.share(0.0) == 1
    assert table.end(1.0, 1.0) == [2]
    assert table.share(1.0) == math.inf
    capacities[0] = 8.0
    table.renew(0, 5.0)
    assert table.share(5.0) == 7
    assert sorted(table.end(7.0, 7.0)) == [0, 1]


def test_a_number_may_be_under_way_twice() -> None:
    table = Flows([8.0])
    table.begin(7, (0,), 8.0, 0.0)
    table.begin(7, (0,), 8.0, 0.0)
    assert table.share(0.0) == 2
    assert table.end(2.0, 2.0) == [7, 7]
    assert table.share(2.0) == math.inf


@pytest.mark.parametrize("uplink", [1e8, 1e9, 1e11])
def test_a_thousand_transfers_with_caps_of_their_own_are_shared_in_time(uplink: float) -> None:
    draw = random.Random(0)
    capacities = [uplink, *(draw.uniform(1e6, 1e8) for _ in range(1000))]
    flows = [(draw.random() if k % 2 else 0.0, (k, 0), draw.uniform(1e5, 1e7)) for k in range(1, 1001)]
    table, coming, ends, soonest = Flows(capacities), sorted(flows), 0, math.inf
    while coming or soonest < math.inf:
        now = min(coming[0][0] if coming else math.inf, soonest)
        ends += len(table.end(now, now)) if soonest <= now else 0
        while coming and coming[0][0] <= now:
            table.begin(len(coming), coming[0][1], coming[0][2], now)
            coming.pop(0)
        soonest = table.share(now)
    assert ends == 1000
