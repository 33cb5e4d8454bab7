"""Transfers in the background take what the others leave, and nothing else."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palmette.cost.priorities import PrioritizedFlows
from palmette.cost.sharing import Path
from palmette.cost.simulate import PhaseSimulator
from palmette.cost.steps import Kind, Step
from palmette.spec.plan import Phase
from tests.cost.random_trees import random_case
from tests.cost.slow_simulator import Ambiguous, Key, Simulator

quick = settings(max_examples=150, deadline=None, derandomize=True)
Transfer = tuple[float, Path, float, bool]  # when it begins, its path, its bits, whether in the background
Times = dict[int, float]


def naive_rates(capacities: Mapping[int, Fraction], paths: Mapping[int, Path]) -> dict[int, Fraction]:
    """Grow all rates together; those on a resource that is full stop there, the others grow on."""
    rates: dict[int, Fraction] = {}
    while len(rates) < len(paths):
        growing = [flow for flow in paths if flow not in rates]
        levels = {
            r: (capacities[r] - sum(rates[f] for f in rates if r in paths[f])) / sum(r in paths[f] for f in growing)
            for r in {r for f in growing for r in paths[f]}
        }
        least = min(levels.values())
        rates.update({f: least for f in growing if any(levels[r] == least for r in paths[f])})
    return rates


def naive_rates_of_both(
    capacities: Sequence[float], transfers: Sequence[Transfer], under_way: Sequence[int]
) -> dict[int, Fraction]:
    """The foreground as if it were alone; then the background on what is left."""
    whole = {r: Fraction(capacity) for r, capacity in enumerate(capacities)}
    paths = {k: transfers[k][1] for k in under_way}
    rates = naive_rates(whole, {k: path for k, path in paths.items() if not transfers[k][3]})
    left = {r: capacity - sum(rate for k, rate in rates.items() if r in paths[k]) for r, capacity in whole.items()}
    return rates | naive_rates(left, {k: path for k, path in paths.items() if transfers[k][3]})


def naive_ends(capacities: Sequence[float], transfers: Sequence[Transfer]) -> Times:
    """When transfers end, in exact fractions, with all rates found anew at every moment."""
    now, ends = Fraction(0), {}
    left = {k: Fraction(bits) for k, (_, _, bits, _) in enumerate(transfers)}
    while left:
        rates = naive_rates_of_both(capacities, transfers, [k for k in left if transfers[k][0] <= now])
        coming = [Fraction(transfers[k][0]) for k in left if transfers[k][0] > now]
        then = min([now + left[k] / rate for k, rate in rates.items() if rate] + coming)
        for k, rate in rates.items():
            left[k] -= rate * (then - now)
            if not left[k]:
                ends[k] = float(then)
                del left[k]
        now = then
    return ends


def played_ends(capacities: Sequence[float], transfers: Sequence[Transfer]) -> Times:
    """The same from ``PrioritizedFlows``."""
    table = PrioritizedFlows(capacities, {k for k, transfer in enumerate(transfers) if transfer[3]})
    coming = sorted(range(len(transfers)), key=lambda k: transfers[k][0])
    ends: Times = {}
    soonest = math.inf
    while coming or soonest < math.inf:
        now = min(transfers[coming[0]][0] if coming else math.inf, soonest)
        if soonest <= now * (1 + 1e-12):
            ended = table.end(now, now * (1 + 1e-12))
            assert ended
            ends.update(dict.fromkeys(ended, now))
        while coming and transfers[coming[0]][0] <= now * (1 + 1e-12):
            k = coming.pop(0)
            table.begin(k, transfers[k][1], transfers[k][2], now)
        soonest = table.share(now)
    return ends


# Of few digits: whether a transfer ends just before another begins, or just after, must not be a matter of rounding.
capacity = st.one_of(st.integers(1, 10).map(float), st.floats(1, 2**20, width=32))
bits = st.one_of(st.integers(1, 20).map(float), st.floats(2**-10, 2**20, width=32))
begin = st.one_of(st.just(0.0), st.integers(0, 5).map(float), st.floats(2**-10, 100, width=16))


@st.composite
def transfer_sets(draw: st.DrawFn, most: int) -> tuple[list[float], list[Transfer]]:
    capacities = draw(st.lists(capacity, min_size=1, max_size=5))
    paths = st.lists(st.sampled_from(range(len(capacities))), min_size=1, max_size=4, unique=True).map(tuple)
    few = draw(st.lists(paths, min_size=1, max_size=6))  # so that several take the same path
    transfer = st.tuples(begin, st.sampled_from(few), bits, st.booleans())
    return capacities, draw(st.lists(transfer, min_size=1, max_size=most))


@quick
@given(transfer_sets(most=10))
def test_transfers_of_both_classes_end_when_naive_max_min_says(case: tuple[list[float], list[Transfer]]) -> None:
    capacities, transfers = case
    assert played_ends(capacities, transfers) == pytest.approx(naive_ends(capacities, transfers), rel=1e-9)


@quick
@given(transfer_sets(most=20))
def test_the_foreground_does_not_notice_the_background(case: tuple[list[float], list[Transfer]]) -> None:
    capacities, transfers = case
    foreground = [transfer for transfer in transfers if not transfer[3]]
    numbers = [k for k, transfer in enumerate(transfers) if not transfer[3]]
    alone, among_others = played_ends(capacities, foreground), played_ends(capacities, transfers)
    assert {k: among_others[k] for k in numbers} == pytest.approx(
        {k: alone[place] for place, k in enumerate(numbers)}, rel=1e-11
    )


def test_samples_share_what_is_left_fairly() -> None:
    # A gradient runs at 4 of 10 bit/s; of three transfers of samples, one has a cap of 1, the others 2.5 each.
    table = PrioritizedFlows([10.0, 4.0, 1.0], {1, 2, 3})
    for number, path in enumerate([(1, 0), (2, 0), (0,), (0,)]):
        table.begin(number, path, 10.0, 0.0)
    assert table.share(0.0) == 2.5
    assert table.end(2.5, 2.5) == [0]
    # From 2.5 s on they have 1, 4.5 and 4.5 bit/s.
    assert table.share(2.5) == pytest.approx(2.5 + 3.75 / 4.5)


def test_a_link_that_is_full_but_for_rounding_has_nothing_left() -> None:
    table = PrioritizedFlows([0.3], {7})
    for number in range(7):
        table.begin(number, (0,), 1.0, 0.0)
    table.begin(7, (0,), 1.0, 0.0)
    full_s = table.share(0.0)
    assert full_s == pytest.approx(7 / 0.3)
    assert sorted(table.end(full_s, full_s * (1 + 1e-12))) == list(range(7))
    assert table.share(full_s) == pytest.approx(8 / 0.3)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e30])
def test_extreme_sizes_end(size: float) -> None:
    transfers = [(0.0, (0, 1), size, True), (0.0, (1,), 1.0, False), (0.0, (0,), size, False), (0.5, (1, 0), 1.0, True)]
    assert len(played_ends([1.0, 1e18], transfers)) == 4


def test_links_that_become_slower_slow_down_both_classes() -> None:
    capacities = [10.0]
    table = PrioritizedFlows(capacities, {1})
    table.begin(0, (0,), 20.0, 0.0)
    table.begin(1, (0,), 20.0, 0.0)
    assert table.share(0.0) == 2
    capacities[0] = 5.0
    table.renew(0, 1.0)
    assert table.share(1.0) == 3
    assert table.end(3.0, 3.0) == [0]
    assert table.share(3.0) == 7


@pytest.mark.parametrize("uplink", [1e8, 1e9, 1e11])
def test_samples_of_a_thousand_devices_are_shared_in_time(uplink: float) -> None:
    draw = random.Random(0)
    capacities = [uplink, *(draw.uniform(1e6, 1e8) for _ in range(1000))]
    transfers = [(0.0, (k, 0), draw.uniform(1e5, 1e7), True) for k in range(1, 1001)]
    assert len(played_ends(capacities, transfers)) == 1000


NAMES = {Kind.DATA: "data", Kind.OUTPUT: "output", Kind.GRADIENT: "gradient"}
CASES, CHUNK = 400, 50


def key_of(step: Step, phase: Phase) -> Key:
    """What the slow simulator calls a transfer."""
    return NAMES[step.kind], step.source if step.kind is Kind.DATA else phase.instances[step.instance].id


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_random_trees_with_transfers_in_the_background_agree_with_the_slow_simulator(first: int) -> None:
    compared = 0
    for seed in range(first, first + CHUNK):
        phase, profile, cluster = random_case(seed)
        draw, fast = random.Random(seed), PhaseSimulator(profile, cluster)
        try:
            slow = Simulator(phase, profile, cluster)
        except Ambiguous:
            continue
        prepared = fast._prepared_for(phase)
        transfers = [k for k, step in enumerate(prepared.steps) if step.kind in NAMES]
        for k in transfers:
            if draw.random() < 0.5:
                prepared.graph.background.add(k)
                slow.jobs[key_of(prepared.steps[k], phase)].background = True
        ends, played = slow.run().end_s, fast.play_step(phase, fast.whole_step(phase)).timing
        for k in transfers:
            key = key_of(prepared.steps[k], phase)
            assert played.end_s[k] == pytest.approx(float(ends[key]), rel=1e-9, abs=1e-12), (seed, key)
        compared += bool(prepared.graph.background)
    assert compared > CHUNK / 2
