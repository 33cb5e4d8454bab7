"""How much data each source gives: x(d), and the samples of a batch that follow from it.

An epoch takes x(d) ≤ Δ(d) samples of source d, X = Σ x(d) in all, and a batch of B is made of the sources in proportion
to them: its *split* are whole numbers b(d), at least 1 each, within one sample of that proportion:

    b(d) − 1  <  B·x(d)/X  <  b(d) + 1

An iteration costs what its split says, and the loss asks for an X, so that a plan is a split and as much data as the
split allows. The split in proportion to what the sources own allows all data, even where a source owns less than one
sample of a batch. A *box* of splits lies between two splits, feed by feed: what branch and bound divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from palmette.plan.core.samples import apportion

Split = tuple[int, ...]
"""Samples of a batch from each feed in use, in the order of the feeds."""
Splits = np.ndarray[Any, np.dtype[np.int64]]
"""Several splits, a row each."""


@dataclass(frozen=True)
class SplitBox:
    """All splits of a batch between two others."""

    batch: int
    least: Split
    most: Split

    @classmethod
    def of_batch(cls, batch: int, feeds: int) -> SplitBox:
        """All splits of a batch."""
        return cls(batch, (1,) * feeds, (batch - feeds + 1,) * feeds)

    @classmethod
    def of_split(cls, split: Split) -> SplitBox:
        """One split."""
        return cls(sum(split), split, split)

    @property
    def is_single(self) -> bool:
        """Whether only one split is left."""
        return self.least == self.most

    def holds(self, split: Sequence[int]) -> bool:
        """Whether a split lies in it."""
        return all(low <= each <= high for low, each, high in zip(self.least, split, self.most, strict=True))

    def narrowed(self) -> SplitBox | None:
        """The same without what no split in it can have; None where there is no split."""
        low, high = sum(self.least), sum(self.most)
        if not low <= self.batch <= high:
            return None
        least = tuple(max(a, self.batch - (high - b)) for a, b in zip(self.least, self.most, strict=True))
        most = tuple(min(b, self.batch - (low - a)) for a, b in zip(self.least, self.most, strict=True))
        return SplitBox(self.batch, least, most)

    def halves(self) -> list[SplitBox]:
        """The box cut in two where it is widest."""
        widest = max(range(len(self.least)), key=lambda k: self.most[k] - self.least[k])
        middle = (self.least[widest] + self.most[widest]) // 2
        below = SplitBox(self.batch, self.least, _replaced(self.most, widest, middle))
        above = SplitBox(self.batch, _replaced(self.least, widest, middle + 1), self.most)
        return [half for each in (below, above) if (half := each.narrowed()) is not None]

    def corners(self) -> Splits:
        """The vertices of the polytope of splits: all feeds but one at their least or most."""
        many, found = len(self.least), set()
        for free in range(many):
            ends = [(0,) if k == free else (self.least[k], self.most[k]) for k in range(many)]
            for chosen in product(*ends):
                rest = self.batch - sum(chosen)
                if self.least[free] <= rest <= self.most[free]:
                    found.add(_replaced(chosen, free, rest))
        return np.array(sorted(found), dtype=np.int64).reshape(-1, many)

    def cheapest(self, sample_costs: Sequence[float]) -> Split:
        """The split with the least cost, where a sample of each feed has its own."""
        found, left = list(self.least), self.batch - sum(self.least)
        for k in sorted(range(len(found)), key=lambda k: sample_costs[k]):
            more = min(left, self.most[k] - self.least[k])
            found[k], left = found[k] + more, left - more
        return tuple(found)

    def most_worth(self, worths: Sequence[float]) -> float:
        """The most that a sample of an epoch counts in the mean, where one of each feed counts so much."""
        if len(set(worths)) == 1:
            return worths[0]
        parts = [max(0, least - 1) for least in self.least]
        left = self.batch - sum(parts)
        for k in sorted(range(len(parts)), key=lambda k: -worths[k]):
            more = min(left, self.most[k] + 1 - parts[k])
            parts[k], left = parts[k] + more, left - more
        return sum(worth * part for worth, part in zip(worths, parts, strict=True)) / self.batch

    def most_epoch_samples(self, owned: Sequence[int]) -> int:
        """The most samples of an epoch that a split of the box allows."""
        if self.holds(apportion(self.batch, owned)):
            return sum(owned)
        low, high = len(owned), sum(owned)
        while low < high:  # a split that allows so much data allows less
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._allows(middle, owned) else (low, middle - 1)
        return low

    def _allows(self, samples: int, owned: Sequence[int]) -> bool:
        repeated = any(
            (least - 1) * samples >= most * self.batch for least, most in zip(self.least, owned, strict=True)
        )
        taken = sum(
            min(own, -(-(most + 1) * samples // self.batch) - 1) for most, own in zip(self.most, owned, strict=True)
        )
        return not repeated and taken >= samples


def epoch_amounts(split: Split, samples: int, owned: Sequence[int]) -> tuple[int, ...]:
    """x(d): so many samples of an epoch in proportion to a split, as far as each feed owns them."""
    taken = [min(each, own) for each, own in zip(apportion(samples, split), owned, strict=True)]
    while short := samples - sum(taken):
        room = [k for k in range(len(split)) if taken[k] < owned[k]]
        furthest = max(room, key=lambda k: split[k] * samples / sum(split) - taken[k])
        taken[furthest] += min(max(1, short // len(room)), owned[furthest] - taken[furthest])
    return tuple(taken)


def _replaced(values: Split, at: int, value: int) -> Split:
    return (*values[:at], value, *values[at + 1 :])
