"""Sizes and repetitions follow how long passes take; no pass is real here, nor is the clock."""

from __future__ import annotations

import numpy as np
import pytest

from palmette.measure import repetitions
from palmette.measure.pass_timer import PassTimes
from palmette.measure.repetitions import choose_sizes, converged, repeat_passes, run_block


class Machine:
    """Passes that take as long as given, on a clock that only they move."""

    def __init__(self, call_s: float, sample_s: float, cold_s: float = 0.0) -> None:
        self.call_s, self.sample_s, self.cold_s = call_s, sample_s, cold_s
        self.now_s, self.ran = 0.0, []

    def clock(self) -> float:
        return self.now_s

    def run(self, samples: int) -> PassTimes:
        cold = not self.ran or self.ran[-1] != samples
        self.ran.append(samples)
        time_s = self.call_s + samples * self.sample_s + self.cold_s * cold
        self.now_s += time_s
        return np.full((3, 1), time_s / 3)


def ignored(share: float) -> None:
    assert 0 <= share <= 1


@pytest.mark.parametrize(("sample_s", "top"), [(1e-5, 64), (0.025, 32), (0.4, 4), (5.0, 4)])
def test_slow_networks_are_measured_with_fewer_samples(sample_s: float, top: int) -> None:
    machine = Machine(0.0, sample_s)
    sizes, tried = choose_sizes(machine.run, 10**6, machine.clock)
    assert max(sizes) == top
    assert len(sizes) >= 3
    assert tried == set(machine.ran)


def test_large_networks_are_measured_with_fewer_samples() -> None:
    machine = Machine(0.0, 1e-6)
    sizes, tried = choose_sizes(machine.run, 10, machine.clock)
    assert (max(sizes), max(tried)) == (8, 8)


def test_every_size_warms_up_before_it_counts() -> None:
    machine = Machine(0.0, 5.0)
    passes = repeat_passes(machine.run, 10**6, ignored, machine.clock)
    assert {size: machine.ran.count(size) - len(each) for size, each in passes.items()} == {2: 1, 3: 1, 4: 1}


def test_the_first_of_a_block_is_left_out_because_caches_are_cold() -> None:
    machine = Machine(0.0, 1e-4, cold_s=1e-3)
    passes = run_block(machine.run, 10, machine.clock)
    assert len(passes) == len(machine.ran) - 1 > 5
    assert all(each.sum() == pytest.approx(1e-3) for each in passes)


def test_a_slow_pass_is_not_repeated_at_once() -> None:
    machine = Machine(1.0, 0.0)
    assert len(run_block(machine.run, 2, machine.clock)) == len(machine.ran) == 1


def test_steady_passes_end_soon() -> None:
    machine = Machine(1e-3, 1e-4)
    passes = repeat_passes(machine.run, 10**6, ignored, machine.clock)
    assert set(passes) == {2, 8, 16, 32, 64}
    assert machine.now_s < 1.0


def test_the_budget_is_kept_where_passes_are_slow() -> None:
    machine = Machine(0.0, 0.012)
    repeat_passes(machine.run, 10**6, ignored, machine.clock)
    assert machine.now_s < 1.5 * repetitions.BUDGET_S


def test_scattered_passes_are_settled_only_when_there_are_many() -> None:
    scattered = [np.full((3, 1), 1.0 + 0.2 * (k % 3)) for k in range(repetitions.MANY)]
    assert not converged(scattered[:-1])
    assert converged(scattered)
    assert converged([np.ones((3, 1))] * repetitions.FEW)
    assert not converged([np.ones((3, 1))] * (repetitions.FEW - 1))
