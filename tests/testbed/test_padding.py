"""By how much time is stretched: for calls that take longer here, and for messages that have to be handed over."""

from __future__ import annotations

import pytest

from palmette.runtime.phase_programs import parts_of
from palmette.runtime.worker.commands import Calibration
from palmette.spec.plan import Plan
from palmette.testbed.padding import CONTENTION, MAX_DILATION, MAX_OVERRUN, Padding, TransferOverhead, dilation
from tests.testbed.stand import cluster, evaluator, split

OVERHEAD = TransferOverhead(0.0008, max_dilation=3.0)


def chosen(plan: Plan, bandwidth: str, fixed: float | None = None) -> float:
    """The dilation of a plan whose calls take no time, on a link of that bandwidth."""
    known = evaluator(cluster(("a", "b", bandwidth)))
    padding = Padding(parts_of(plan.phases[0], known), known, fixed, OVERHEAD)
    return padding.apply_calibration({})[0]


def span_s(plan: Plan, bandwidth: str) -> float:
    known = evaluator(cluster(("a", "b", bandwidth)))
    return known.price(plan.phases[0]).iteration_s


def test_long_iterations_are_not_stretched() -> None:
    assert span_s(split("a", "b"), "100 kbit/s") > 0.08
    assert chosen(split("a", "b"), "100 kbit/s") == 1.0


def test_short_ones_are_until_two_transfers_are_handed_over_in_a_fiftieth() -> None:
    plan, bandwidth = split("a", "b"), "4 Mbit/s"
    assert chosen(plan, bandwidth) == pytest.approx(2 * OVERHEAD.seconds / 0.02 / span_s(plan, bandwidth), abs=0.01)
    assert 1.0 < chosen(plan, bandwidth) < OVERHEAD.max_dilation


def test_but_not_beyond_a_limit_and_not_where_the_user_says_how_much() -> None:
    assert chosen(split("a", "b"), "1 Gbit/s") == OVERHEAD.max_dilation
    assert chosen(split("a", "b"), "1 Gbit/s", fixed=1.5) == 1.5


@pytest.mark.parametrize("taken_s", [0.1, 0.5, 3.0])
def test_the_least_factor_is_found_by_which_calls_fit(taken_s: float) -> None:
    found = dilation({0: 0.2}, {0: taken_s}, 1.0)
    assert CONTENTION * taken_s - found * 0.2 <= MAX_OVERRUN * found
    if found > 1:
        less = found - 0.02
        assert CONTENTION * taken_s - less * 0.2 > MAX_OVERRUN * less


def test_calls_are_padded_to_the_work_that_they_do() -> None:
    known = evaluator(cluster(("a", "b", "1 Mbit/s")), layer_s=0.1)
    padding = Padding(parts_of(split("a", "b").phases[0], known), known, 2.0, OVERHEAD)
    part = parts_of(split("a", "b").phases[0], known)[0]
    calls = known.call_seconds(part.phase, part.made)
    lazy, *others = calls
    factor, paces = padding.apply_calibration({"a": {0: Calibration(calls, {lazy: 0.25})}})
    assert factor == 2.0
    assert paces["a"][0].seconds[lazy] == pytest.approx(0.25 * 2.0 * calls[lazy])
    assert all(paces["a"][0].seconds[number] == pytest.approx(2.0 * calls[number]) for number in others)


def test_a_dilation_is_widened_unless_it_is_given_or_at_its_limit() -> None:
    known = evaluator(cluster(("a", "b", "1 Mbit/s")))
    parts = parts_of(split("a", "b").phases[0], known)
    assert Padding(parts, known, None, OVERHEAD).increased(2.0, 1.5) == 3.0
    assert Padding(parts, known, None, OVERHEAD).increased(MAX_DILATION - 1, 4.0) == MAX_DILATION
    assert Padding(parts, known, None, OVERHEAD).increased(MAX_DILATION, 4.0) is None
    assert Padding(parts, known, 2.0, OVERHEAD).increased(2.0, 1.5) is None
