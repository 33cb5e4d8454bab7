"""The fit finds the fixed part and the slope, through noise, and never goes below 0."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palmette.measure.call_time_fit import CallTime, fit_call_time, worst_error

SIZES = (2, 8, 16, 32, 64)
TIME_S = st.floats(1e-7, 10.0)


@given(call_s=st.floats(0, 1e-2), sample_s=st.floats(1e-7, 1e-2))
def test_an_exact_line_is_found(call_s: float, sample_s: float) -> None:
    line = fit_call_time(SIZES, [call_s + many * sample_s for many in SIZES])
    for many in SIZES:
        assert math.isclose(line.at(many), call_s + many * sample_s, rel_tol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_found_in_medians_of_noisy_times(seed: int) -> None:
    chance = random.Random(seed)

    def reading(many: int) -> float:
        slow = 5.0 if chance.random() < 0.2 else 1.0  # now and then something else has the machine
        return (300e-6 + many * 50e-6) * slow * chance.uniform(0.95, 1.1)

    line = fit_call_time(SIZES, [median(reading(many) for _ in range(31)) for many in SIZES])
    assert line.call_s == pytest.approx(300e-6, rel=0.15)
    assert line.sample_s == pytest.approx(50e-6, rel=0.1)


@given(st.tuples(*[TIME_S] * len(SIZES)))
def test_no_part_is_ever_negative(times_s: tuple[float, ...]) -> None:
    line = fit_call_time(SIZES, times_s)
    assert line.call_s >= 0
    assert line.sample_s >= 0
    assert line.at(1) > 0


def test_times_that_grow_faster_than_the_batch_have_no_fixed_part() -> None:
    assert fit_call_time((1, 2, 4), [1.0, 3.0, 9.0]).call_s == 0


def test_times_that_shrink_have_no_slope() -> None:
    assert fit_call_time((1, 2, 4), [3.0, 2.0, 1.0]).sample_s == 0


def test_small_batches_count_as_much_as_large_ones() -> None:
    # One reading off by 10%: with absolute errors, 1% of the last one would outweigh it.
    line = fit_call_time((1, 10, 1000), [11e-6, 20e-6, 1010e-6])
    assert line.at(1) == pytest.approx(11e-6, rel=0.06)


def test_what_takes_no_time_has_no_parts() -> None:
    assert fit_call_time(SIZES, [0.0] * len(SIZES)) == CallTime(0.0, 0.0)


def test_the_worst_error_is_that_of_the_sum() -> None:
    lines = [CallTime(1.0, 0.0), CallTime(0.0, 1.0)]
    assert worst_error(lines, (1, 3), (2.0, 5.0)) == pytest.approx(0.2)
