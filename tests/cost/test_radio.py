"""Joules of radios, beside a sum over small slices of time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palmette.cost.evaluate import Price
from palmette.cost.radio import radio_energy_j
from palmette.spec.radio import Radio, RadioTail
from tests.cost.small import cluster, instance, link, node, phase, price, profile, source, times

SLICE_S = 0.5
spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=6)


def slowly_j(radio: Radio, transfers: list[tuple[float, float]], period_s: float) -> float:
    """Slice by slice of the second period of two: is a message passing now, or how long ago was the last?"""
    slices = round(period_s / SLICE_S)
    passes = [any(start <= k * SLICE_S < end for start, end in transfers) for k in range(slices)]
    joules, since = 0.0, None
    for turn in range(2):
        for active in passes:
            since = 0 if active else None if since is None else since + 1
            if turn == 1 and active:
                joules += radio.active_w * SLICE_S
            elif turn == 1 and since is not None and since * SLICE_S <= radio.tail.time_s:
                joules += radio.tail.power_w * SLICE_S
    return joules


@settings(max_examples=200, deadline=None, derandomize=True)
@given(spans, st.integers(0, 40), st.integers(0, 12))
def test_it_is_a_sum_over_slices_of_time(found: list[tuple[int, int]], idle_s: int, tail_s: int) -> None:
    radio = Radio(active_w=1.2, tail=RadioTail(power_w=0.7, time_s=float(tail_s)))
    transfers = [(float(start), float(start + length)) for start, length in found]
    period_s = max((end for _, end in transfers), default=0.0) + idle_s
    assert radio_energy_j(radio, transfers, period_s) == pytest.approx(slowly_j(radio, transfers, period_s))


CUT = phase(source("a", 2, "1"), instance("1", 1, 1, "a", "2"), instance("2", 2, 2, "b"))


@pytest.mark.parametrize(("tail_s", "tails_s"), [(0.0, 0.0), (5.0, 10.0), (6.2, 12.2), (60.0, 12.5)])
def test_a_tail_counts_once_for_each_gap_and_at_the_end_of_an_iteration(tail_s: float, tails_s: float) -> None:
    """Messages pass from 2 to 4 s and from 10 to 12 s of 16.5 s; the next one, 2 s into the next iteration."""

    def spent(**more: Any) -> Price:
        nodes = {"a": node(2, power=(1.0, 2.0), **more), "b": node(power=(1.0, 2.0))}
        layers = profile([(1.0, 1.0), (1.0, 1.0)], a=times(2), b=times(2))
        return price(cluster(link("a", "b"), **nodes), layers, CUT)

    plain, radio = spent(), spent(radio={"active_w": 3.0, "tail": {"power_w": 0.5, "time_s": tail_s}})
    assert plain.iteration_j is not None
    assert radio.iteration_s == plain.iteration_s == 16.5
    assert radio.iteration_j == pytest.approx(plain.iteration_j + 3.0 * 4 + 0.5 * tails_s)
    assert radio.epoch.energy_j == pytest.approx(radio.iteration_j)


def test_a_bit_costs_more_on_a_slow_link() -> None:
    """α + β / throughput."""
    radio = Radio(active_w=1.2)
    for rate_bps in (1e5, 1e6):
        assert radio_energy_j(radio, [(0.0, 1e6 / rate_bps)], 100.0) / 1e6 == pytest.approx(1.2 / rate_bps)
