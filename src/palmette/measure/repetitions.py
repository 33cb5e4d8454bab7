"""How often to repeat a pass, and with which batch sizes: until the medians converge, or the budget is used up.

probe     2, 4, 8 … samples until a pass gets slow, which also warms up; the chosen sizes go up to there
round     a block of passes of each size in turn, so that a slow spell of the machine affects all sizes equally
block     passes back to back; the first of several finds caches cold from another size and is left out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from time import perf_counter

import numpy as np

from palmette.measure.clocks import Clock
from palmette.measure.pass_timer import PassTimes

# Batch sizes to fit a line to, by the largest; never a single sample, which batch norm may refuse.
BATCH_SIZES = {
    64: (2, 8, 16, 32, 64),
    32: (2, 8, 16, 32),
    16: (2, 4, 8, 16),
    8: (2, 4, 8),
    4: (2, 3, 4),
}
SMALLEST, LARGEST = 2, max(BATCH_SIZES)

BUDGET_S = 15.0
LEAST_ROUNDS = 3
# A pass of the largest size may take this share of the budget: then some ten rounds fit.
SLOW_SHARE = 1 / 16
BLOCK_S = 0.02
# A median has converged once its standard error is this small, from at least a few passes, or after many.
STABLE, FEW, MANY = 0.01, 8, 30

Run = Callable[[int], PassTimes]
OnProgress = Callable[[float], None]


def repeat_passes(
    run: Run, max_samples: int, on_progress: OnProgress, clock: Clock = perf_counter
) -> dict[int, list[PassTimes]]:
    """Passes of at least three sizes, without warm-up; ``on_progress`` gets the share of the budget that is used."""
    sizes, warm = choose_sizes(run, max_samples, clock)
    for size in sizes:
        if size not in warm:
            run(size)
    passes: dict[int, list[PassTimes]] = {size: [] for size in sizes}
    start_s, rounds = clock(), 0
    while not finished(rounds, clock() - start_s, passes):
        for size in sizes:
            passes[size] += run_block(run, size, clock)
            on_progress(min(1.0, (clock() - start_s) / BUDGET_S))
        rounds += 1
    return passes


def choose_sizes(run: Run, max_samples: int, clock: Clock) -> tuple[tuple[int, ...], set[int]]:
    """The sizes to measure, and those that were tried to find out; none above ``max_samples`` if that leaves 3."""
    tried, size, top = set(), SMALLEST, min(BATCH_SIZES)
    while size <= min(LARGEST, max(max_samples, top)):
        start_s = clock()
        run(size)
        tried.add(size)
        if clock() - start_s > SLOW_SHARE * BUDGET_S:
            break
        top, size = max(top, size), 2 * size
    return BATCH_SIZES[top], tried


def run_block(run: Run, size: int, clock: Clock) -> list[PassTimes]:
    """Passes of one size, back to back for a moment; a slow pass stands alone."""
    start_s = clock()
    passes = [run(size)]
    while clock() - start_s < BLOCK_S:
        passes.append(run(size))
    return passes[1:] or passes


def finished(rounds: int, spent_s: float, passes: dict[int, list[PassTimes]]) -> bool:
    """Whether the medians have converged, or the budget is used up."""
    return rounds >= LEAST_ROUNDS and (spent_s >= BUDGET_S or all(map(converged, passes.values())))


def converged(passes: Sequence[PassTimes]) -> bool:
    """Whether the median of the passes' totals has converged, by its standard error or their number."""
    totals_s = np.array([each.sum() for each in passes])
    median_s = float(np.median(totals_s))
    deviation_s = 1.4826 * float(np.median(np.abs(totals_s - median_s)))
    error_s = 1.2533 * deviation_s / sqrt(len(passes))
    return len(passes) >= MANY or (len(passes) >= FEW and error_s <= STABLE * median_s)
