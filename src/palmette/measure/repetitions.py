"""How often to repeat a pass, and with how many samples: until the medians stand still, or time is up.

probe     2, 4, 8 … samples until a pass gets slow, which also warms up; what is chosen goes up to there
round     a block of passes of each size in turn, so that a slow spell of the machine hits all sizes alike
block     passes back to back; the first of several finds caches cold from another size and is left out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from time import perf_counter

import numpy as np

from palmette.measure.clocks import Clock
from palmette.measure.pass_timer import Seconds

# Sizes to fit a line through, by the largest; never a single sample, which batch norm may refuse.
LADDERS = {
    64: (2, 8, 16, 32, 64),
    32: (2, 8, 16, 32),
    16: (2, 4, 8, 16),
    8: (2, 4, 8),
    4: (2, 3, 4),
}
SMALLEST, LARGEST = 2, max(LADDERS)

BUDGET_S = 15.0
LEAST_ROUNDS = 3
# A pass of the largest size may take this share of the budget: then some ten rounds fit.
SLOW_SHARE = 1 / 16
BLOCK_S = 0.02
# A median is known well enough once its standard error is this small, from at least a few passes, or many.
STABLE, FEW, MANY = 0.01, 8, 30

Run = Callable[[int], Seconds]
Spent = Callable[[float], None]


def repeated(run: Run, most_samples: int, spent: Spent, clock: Clock = perf_counter) -> dict[int, list[Seconds]]:
    """Passes of at least three sizes, warm-up left out; ``spent`` is told the share of the budget that is gone."""
    sizes, warm = chosen_sizes(run, most_samples, clock)
    for size in sizes:
        if size not in warm:
            run(size)
    passes: dict[int, list[Seconds]] = {size: [] for size in sizes}
    start_s, rounds = clock(), 0
    while not enough(rounds, clock() - start_s, passes):
        for size in sizes:
            passes[size] += block(run, size, clock)
            spent(min(1.0, (clock() - start_s) / BUDGET_S))
        rounds += 1
    return passes


def chosen_sizes(run: Run, most_samples: int, clock: Clock) -> tuple[tuple[int, ...], set[int]]:
    """The sizes to measure, and those that were tried to find out; none above ``most_samples`` if that leaves 3."""
    tried, size, top = set(), SMALLEST, min(LADDERS)
    while size <= min(LARGEST, max(most_samples, top)):
        start_s = clock()
        run(size)
        tried.add(size)
        if clock() - start_s > SLOW_SHARE * BUDGET_S:
            break
        top, size = max(top, size), 2 * size
    return LADDERS[top], tried


def block(run: Run, size: int, clock: Clock) -> list[Seconds]:
    """Passes of one size, back to back for a moment; a slow pass stands alone."""
    start_s = clock()
    passes = [run(size)]
    while clock() - start_s < BLOCK_S:
        passes.append(run(size))
    return passes[1:] or passes


def enough(rounds: int, spent_s: float, passes: dict[int, list[Seconds]]) -> bool:
    """Whether more rounds would change little, or take too long."""
    return rounds >= LEAST_ROUNDS and (spent_s >= BUDGET_S or all(map(settled, passes.values())))


def settled(passes: Sequence[Seconds]) -> bool:
    """Whether the median of the passes' totals is known well enough, by its standard error or their number."""
    totals_s = np.array([each.sum() for each in passes])
    median_s = float(np.median(totals_s))
    deviation_s = 1.4826 * float(np.median(np.abs(totals_s - median_s)))
    error_s = 1.2533 * deviation_s / sqrt(len(passes))
    return len(passes) >= MANY or (len(passes) >= FEW and error_s <= STABLE * median_s)
