"""The best integers (b_s, b_l) of rows, exactly.

For a given b_l, T_total is convex and piecewise linear in b_s: its least value stands at an end or at a bend, over the
integers next to one. And h(b_l), the least value over *real* b_s, is convex in b_l. So: halve the range of b_l until h
is least, then look at the integers around. By convexity h only grows further out, and no integer point there can be
better than h; as soon as h at both ends of what was looked at is no better than the best integer point, that is it.
The number of steps grows with the logarithm of the batch.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from palmette.plan.hiertrain.domain import Domain
from palmette.plan.hiertrain.pieces import BENDS, Flags, Pieces
from palmette.plan.hiertrain.problem import Floats, Ints

_WINDOW, _WIDER, _WIDEST = 4, 8, 4 * 8**5
"""Integers looked at on either side. Beyond the widest, 131,072, T_total is flat for all that floats can tell."""
_TANGENTS = 8
_STRAIGHT = 1e5  # a tangent that is longer than this goes astray by rounding


@dataclass(frozen=True, eq=False)
class Best:
    """T_total and samples of each row's best point; infinite where a row has none."""

    total_s: Floats
    b_s: Floats
    b_l: Floats


@dataclass(frozen=True, eq=False)
class _Problem:
    pieces: Pieces
    domain: Domain

    def take(self, which: Ints | Flags) -> _Problem:
        return _Problem(self.pieces.take(which), self.domain.take(which))

    def bends(self, b_l: Floats, low: Floats) -> Floats:
        """Where pieces cross as b_s grows, [bend, choice, row]; ``low`` where they do not."""
        p, (i, k) = self.pieces, BENDS
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at_0, by_l, by_s = p.at_0[k] - p.at_0[i], p.by_l[k] - p.by_l[i], p.by_s[i] - p.by_s[k]
            found: Floats = (at_0[:, None] + by_l[:, None] * b_l) / by_s[:, None]
        return np.where(np.isfinite(found), found, low)

    def real_s(self, b_l: Floats) -> Floats:
        """h: the least T_total over real b_s, for b_l [choice, row]."""
        low, high = self.domain.range_s(b_l)
        tried = np.concatenate([low[None], high[None], np.minimum(np.maximum(self.bends(b_l, low), low), high)])
        return np.where(low <= high, self.pieces.total_s(tried, b_l).min(axis=0), np.inf)

    def whole_s(self, b_l: Floats) -> tuple[Floats, Floats]:
        """The least T_total over whole b_s, and the b_s that has it."""
        least, most = self.domain.range_s(b_l)
        low, high = np.ceil(least), np.floor(most)
        below = np.floor(self.bends(b_l, low))
        tried = np.concatenate([low[None], high[None], below, below + 1])
        b_s = np.sort(np.minimum(np.maximum(tried, low), high), axis=0)
        total = np.where(low <= high, self.pieces.total_s(b_s, b_l), np.inf)
        first = total.argmin(axis=0)[None]
        return np.take_along_axis(total, first, 0)[0], np.take_along_axis(b_s, first, 0)[0]


def relaxed_s(pieces: Pieces, domain: Domain, limit_s: float) -> Floats:
    """The least T_total of each row over whole b_l and real b_s: a lower bound over integers.

    Where it is above the limit, it may be any value above; infinite where there is no point.
    """
    low, high = domain.range_l()
    least: Floats = np.full(len(low), np.inf)
    rows = np.flatnonzero(low <= high)
    least[rows] = _least(_Problem(pieces, domain).take(rows), low[rows], high[rows], limit_s)[1]
    return least


def best_samples(pieces: Pieces, domain: Domain) -> Best:
    """The best integer point of each row; of equal ones the first in the order of b_l, then b_s, of those looked at."""
    low, high = domain.range_l()
    best = Best(np.full(len(low), np.inf), np.zeros(len(low)), np.zeros(len(low)))
    left = np.flatnonzero(low <= high)
    problem, low, high = _Problem(pieces, domain).take(left), low[left], high[left]
    middle, window = _least(problem, low, high)[0], _WINDOW
    while len(left):
        first, last = np.maximum(low, middle - window), np.minimum(high, middle + window)
        no_better = _look_around(best, left, problem, first, last)
        done = ((first == low) | no_better[0]) & ((last == high) | no_better[1]) | (window >= _WIDEST)
        left, problem = left[~done], problem.take(~done)
        low, high, middle = low[~done], high[~done], middle[~done]
        window *= _WIDER
    return best


def _look_around(best: Best, left: Ints, problem: _Problem, first: Floats, last: Floats) -> Flags:
    """Try the whole b_l from ``first`` to ``last``; returns for which rows nothing below and above can be better."""
    width = int((last - first).max())
    groups = np.array_split(np.arange(len(left)), min(len(left), 1 + len(left) * width // 20_000))
    no_better = np.zeros((2, len(left)), dtype=bool)
    for group in groups:
        part, low, high = problem.take(group), first[group], last[group]
        b_l = np.minimum(low + np.arange(width + 1)[:, None], high)
        total, b_s = part.whole_s(b_l)
        least = total.argmin(axis=0)[None]
        rows = left[group]
        best.total_s[rows] = np.take_along_axis(total, least, 0)[0]
        best.b_s[rows] = np.take_along_axis(b_s, least, 0)[0]
        best.b_l[rows] = np.take_along_axis(b_l, least, 0)[0]
        no_better[:, group] = part.real_s(np.stack([low, high])) >= best.total_s[rows]
    return no_better


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def _least(problem: _Problem, low: Floats, high: Floats, limit_s: float = np.inf) -> tuple[Floats, Floats]:
    """The whole b_l from ``low`` to ``high`` at which h is least, and its h.

    Two tangents of the convex h close in on its least value from both sides; where they cross is the next b_l to look
    at, and a lower bound. Where rounding keeps them from closing in, or from crossing at all, the range is halved.
    Where they cross above the limit, any h above it will do.
    """
    tried = np.stack([low, np.minimum(low + 1, high), np.maximum(high - 1, low), high])
    values = problem.real_s(tried)
    first = values.argmin(axis=0)[None]
    best, best_s = np.take_along_axis(tried, first, 0)[0], np.take_along_axis(values, first, 0)[0]
    left = np.arange(len(low))
    at_low, at_high = values[0], values[3]
    down, up = values[1] - values[0], values[3] - values[2]
    for turn in itertools.count():
        cross = low + (at_high - at_low - up * (high - low)) / (down - up)
        bound_s = at_low + down * (cross - low)
        done = (high - low <= 2) | (down >= 0) | (up <= 0)
        done |= (bound_s >= np.minimum(best_s[left], limit_s)) & (high - low < _STRAIGHT)
        if done.all():
            break
        left, problem = left[~done], problem.take(~done)
        low, high, down, up, at_low, at_high, cross = (
            each[~done] for each in (low, high, down, up, at_low, at_high, cross)
        )
        halfway = (low + high) / 2
        middle = np.where(np.isfinite(cross), cross, halfway) if turn < _TANGENTS else halfway
        middle = np.clip(np.floor(middle), low + 1, high - 2)
        here, then = problem.real_s(np.stack([middle, middle + 1]))
        falls, slope = then < here, then - here
        better = np.minimum(here, then) < best_s[left]
        best[left] = np.where(better, np.where(falls, middle + 1, middle), best[left])
        best_s[left] = np.minimum(np.minimum(here, then), best_s[left])
        low, at_low, down = np.where(falls, [middle, here, slope], [low, at_low, down])
        high, at_high, up = np.where(falls, [high, at_high, up], [middle + 1, then, slope])
    return best, best_s
