"""The best integers (b_s, b_l) of many placements at once, exactly.

For a given b_l, T_total is convex and piecewise linear in b_s: its minimum is at an end or at a breakpoint, over
integers next to one. And h(b_l), the minimum over *real* b_s, is convex in b_l and a lower bound for integers. So:
minimise h over b_l by bisection, then search a window of integers around its minimum. By convexity h only grows further
out, so that once h at both ends of the window is no better than the best integer point, that point is optimal. The
number of steps grows with the logarithm of the batch.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from palmette.plan.hiertrain.feasible_region import FeasibleRegion
from palmette.plan.hiertrain.piecewise_linear import CROSSING_PAIRS, Flags, PiecewiseLinear
from palmette.plan.hiertrain.problem import Floats, Ints

_WINDOW, _WINDOW_GROWTH, _MAX_WINDOW = 4, 8, 4 * 8**5
"""Integers searched on either side. Beyond the largest window, 131,072, T_total is flat within rounding."""
_MAX_TANGENTS = 8
_MAX_TANGENT_SPAN = 1e5  # rounding makes longer tangents unreliable


@dataclass(frozen=True, eq=False)
class BatchSplits:
    """The best T_total of each placement and its (b_s, b_l); infinite where it has no feasible split."""

    total_s: Floats
    b_s: Floats
    b_l: Floats


@dataclass(frozen=True, eq=False)
class _SplitProblem:
    objective: PiecewiseLinear
    region: FeasibleRegion

    def take(self, which: Ints | Flags) -> _SplitProblem:
        return _SplitProblem(self.objective.take(which), self.region.take(which))

    def breakpoints(self, b_l: Floats, low: Floats) -> Floats:
        """Where pieces cross as b_s grows, [breakpoint, choice, row]; ``low`` where they do not."""
        p, (i, k) = self.objective, CROSSING_PAIRS
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            above = (p.intercept[k] - p.intercept[i])[:, None] + (p.slope_l[k] - p.slope_l[i])[:, None] * b_l
            crossing: Floats = above / (p.slope_s[i] - p.slope_s[k])[:, None]
        return np.where(np.isfinite(crossing), crossing, low)

    def relaxed_total_s(self, b_l: Floats) -> Floats:
        """h: the minimum of T_total over real b_s, for b_l [choice, row]."""
        low, high = self.region.range_s(b_l)
        tried = np.concatenate([low[None], high[None], np.minimum(np.maximum(self.breakpoints(b_l, low), low), high)])
        return np.where(low <= high, self.objective.total_s(tried, b_l).min(axis=0), np.inf)

    def best_integer_s(self, b_l: Floats) -> tuple[Floats, Floats]:
        """The minimum of T_total over integer b_s, and its b_s."""
        least, most = self.region.range_s(b_l)
        low, high = np.ceil(least), np.floor(most)
        below = np.floor(self.breakpoints(b_l, low))
        tried = np.concatenate([low[None], high[None], below, below + 1])
        b_s = np.sort(np.minimum(np.maximum(tried, low), high), axis=0)
        total = np.where(low <= high, self.objective.total_s(b_s, b_l), np.inf)
        first = total.argmin(axis=0)[None]
        return np.take_along_axis(total, first, 0)[0], np.take_along_axis(b_s, first, 0)[0]


def relaxed_bound_s(objective: PiecewiseLinear, region: FeasibleRegion, limit_s: float) -> Floats:
    """The minimum of T_total of each placement over integer b_l and real b_s: a lower bound.

    Where it is above the limit, any value above may be returned; infinite where nothing is feasible.
    """
    low, high = region.range_l()
    least: Floats = np.full(len(low), np.inf)
    rows = np.flatnonzero(low <= high)
    least[rows] = _minimize_relaxed(_SplitProblem(objective, region).take(rows), low[rows], high[rows], limit_s)[1]
    return least


def best_splits(objective: PiecewiseLinear, region: FeasibleRegion) -> BatchSplits:
    """The best integer split of each placement; ties go to the smallest b_l, then b_s, of those searched."""
    low, high = region.range_l()
    best = BatchSplits(np.full(len(low), np.inf), np.zeros(len(low)), np.zeros(len(low)))
    open_rows = np.flatnonzero(low <= high)
    problem, low, high = _SplitProblem(objective, region).take(open_rows), low[open_rows], high[open_rows]
    middle, window = _minimize_relaxed(problem, low, high)[0], _WINDOW
    while len(open_rows):
        first, last = np.maximum(low, middle - window), np.minimum(high, middle + window)
        no_better = _search_window(best, open_rows, problem, first, last)
        done = ((first == low) | no_better[0]) & ((last == high) | no_better[1]) | (window >= _MAX_WINDOW)
        open_rows, problem = open_rows[~done], problem.take(~done)
        low, high, middle = low[~done], high[~done], middle[~done]
        window *= _WINDOW_GROWTH
    return best


def _search_window(best: BatchSplits, open_rows: Ints, problem: _SplitProblem, first: Floats, last: Floats) -> Flags:
    """Try the integers b_l from ``first`` to ``last``; returns where nothing below, or above, can be better."""
    width = int((last - first).max())
    groups = np.array_split(np.arange(len(open_rows)), min(len(open_rows), 1 + len(open_rows) * width // 20_000))
    no_better = np.zeros((2, len(open_rows)), dtype=bool)
    for group in groups:
        part, low, high = problem.take(group), first[group], last[group]
        b_l = np.minimum(low + np.arange(width + 1)[:, None], high)
        total, b_s = part.best_integer_s(b_l)
        least = total.argmin(axis=0)[None]
        rows = open_rows[group]
        best.total_s[rows] = np.take_along_axis(total, least, 0)[0]
        best.b_s[rows] = np.take_along_axis(b_s, least, 0)[0]
        best.b_l[rows] = np.take_along_axis(b_l, least, 0)[0]
        no_better[:, group] = part.relaxed_total_s(np.stack([low, high])) >= best.total_s[rows]
    return no_better


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def _minimize_relaxed(
    problem: _SplitProblem, low: Floats, high: Floats, limit_s: float = np.inf
) -> tuple[Floats, Floats]:
    """The integer b_l from ``low`` to ``high`` that minimises h, and its h.

    Two tangents of the convex h enclose its minimum from both sides; where they cross is the next b_l to try, and a
    lower bound. Where rounding keeps them from converging, or from crossing at all, the range is halved. Where they
    cross above the limit, the search stops.
    """
    tried = np.stack([low, np.minimum(low + 1, high), np.maximum(high - 1, low), high])
    values = problem.relaxed_total_s(tried)
    first = values.argmin(axis=0)[None]
    best, best_s = np.take_along_axis(tried, first, 0)[0], np.take_along_axis(values, first, 0)[0]
    open_rows = np.arange(len(low))
    at_low, at_high = values[0], values[3]
    down, up = values[1] - values[0], values[3] - values[2]
    for turn in itertools.count():
        cross = low + (at_high - at_low - up * (high - low)) / (down - up)
        bound_s = at_low + down * (cross - low)
        done = (high - low <= 2) | (down >= 0) | (up <= 0)
        done |= (bound_s >= np.minimum(best_s[open_rows], limit_s)) & (high - low < _MAX_TANGENT_SPAN)
        if done.all():
            break
        open_rows, problem = open_rows[~done], problem.take(~done)
        low, high, down, up, at_low, at_high, cross = (
            each[~done] for each in (low, high, down, up, at_low, at_high, cross)
        )
        halfway = (low + high) / 2
        middle = np.where(np.isfinite(cross), cross, halfway) if turn < _MAX_TANGENTS else halfway
        middle = np.clip(np.floor(middle), low + 1, high - 2)
        here, then = problem.relaxed_total_s(np.stack([middle, middle + 1]))
        falls, slope = then < here, then - here
        better = np.minimum(here, then) < best_s[open_rows]
        best[open_rows] = np.where(better, np.where(falls, middle + 1, middle), best[open_rows])
        best_s[open_rows] = np.minimum(np.minimum(here, then), best_s[open_rows])
        low, at_low, down = np.where(falls, [middle, here, slope], [low, at_low, down])
        high, at_high, up = np.where(falls, [high, at_high, up], [middle + 1, then, slope])
    return best, best_s
