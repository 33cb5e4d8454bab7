"""Joules by hand: idle all the time, and what computing adds at the share in use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palmette.cost.energy import load, node_energy_j
from palmette.spec.cluster import Power
from tests.cost.small import BYTE_A_SECOND, cluster, instance, link, node, phase, price, profile, source, times


def test_a_node_that_never_computes_idles() -> None:
    assert load([], 3.0) == (0, 0)
    assert node_energy_j(Power(idle_w=2.0, busy_w=5.0), 10.0, 0.0) == 20


def test_calls_side_by_side_add_their_shares_before_the_power_is_taken() -> None:
    # 0–4 s at 0.5, 4–6 s at 1, 6–8 s at 0.5.
    busy, effort = load([(0.0, 6.0, 0.5), (4.0, 8.0, 0.5)], 2.0)
    assert (busy, effort) == (8, 6 * 0.25 + 2)


def test_calls_one_after_the_other_leave_no_gap_and_no_overlap() -> None:
    assert load([(0.0, 3.0, 1.0), (3.0, 5.0, 1.0)], 3.0) == (5, 5)


def test_calls_without_time_cost_nothing() -> None:
    assert load([(2.0, 2.0, 1.0)], 1.0) == (0, 0)


spans = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 10), st.sampled_from([0.1, 0.25, 0.5])), min_size=1, max_size=8
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(spans, st.sampled_from([0.5, 1.0, 2.0, 3.0]))
def test_load_equals_a_sum_over_seconds(found: list[tuple[int, int, float]], exponent: float) -> None:
    calls = [(float(start), float(start + length), share) for start, length, share in found]
    shares = [sum(share for start, end, share in calls if start <= second < end) for second in range(30)]
    busy, effort = load(calls, exponent)
    assert busy == sum(share > 0 for share in shares)
    assert effort == pytest.approx(sum(min(share, 1) ** exponent for share in shares if share))


def test_an_iteration_costs_idle_power_of_hosts_computing_and_bits() -> None:
    # a sends 4 bytes in 4 s; b computes 2 × (1 + 2) s and updates 0.5 s: 10.5 s in all.
    pair = cluster(
        link("a", "b", BYTE_A_SECOND, energy_j_per_bit=0.25), a=node(9, power=(1.0, 9.0)), b=node(power=(2.0, 5.0))
    )
    found = price(pair, profile([(1.0, 1.0)], 2.0, b=times(1)), phase(source("a", 2, "I"), instance("I", 1, 1, "b")))
    assert found.iteration_s == 10.5
    assert found.nodes["b"].busy_s == 6.5
    assert found.iteration_j == 1 * 10.5 + (2 * 10.5 + 3 * 6.5) + 4 * 8 * 0.25


@pytest.mark.parametrize(("exponent", "watts"), [(1.0, 2.0), (2.0, 1.0), (3.0, 0.5)])
def test_half_a_cpu_takes_twice_the_time_at_the_power_that_the_exponent_says(exponent: float, watts: float) -> None:
    alone = cluster(a=node(9, power=(1.0, 5.0, exponent)))
    found = price(
        alone,
        profile([(1.0, 1.0)], a=times(1)),
        phase(source("a", 1, "I"), instance("I", 1, 1, "a", cpu_share=0.5)),
    )
    assert found.iteration_s == 7
    assert found.iteration_j == 7 * 1 + 7 * watts


def test_nodes_that_only_relay_are_free_but_their_links_are_not() -> None:
    line = cluster(
        link("a", "relay", energy_j_per_bit=1.0),
        link("relay", "b", energy_j_per_bit=2.0),
        a=node(9, power=(1.0, 1.0)),
        relay=node(power=(100.0, 100.0)),
        b=node(power=(1.0, 1.0)),
    )
    found = price(line, profile([(1.0, 1.0)], b=times(1)), phase(source("a", 1, "I"), instance("I", 1, 1, "b")))
    assert set(found.nodes) == {"a", "b"}
    assert found.iteration_j == 2 * found.iteration_s + 8 * 3


def test_energy_is_unknown_where_the_power_of_a_host_is() -> None:
    pair = cluster(link("a", "b"), a=node(9), b=node(power=(1.0, 1.0)))
    found = price(pair, profile([(1.0, 1.0)], b=times(1)), phase(source("a", 1, "I"), instance("I", 1, 1, "b")))
    assert found.iteration_j is None
    assert found.epoch.energy_j is None
    assert found.iteration_s == 1 + 3.5
