"""Which samples an iteration uses; depends only on the data's size, the batch size, the seed and the iteration.

Of several nodes that own data of the same name, each has its own row, so that they do not draw the same samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


class Batches:
    """An endless sequence of shuffled passes over the data, cut into batches; each ``row`` is shuffled differently."""

    def __init__(self, samples: int, batch: int, seed: int, *, row: int = 0) -> None:
        self._samples, self._batch, self._seed, self._row = samples, batch, seed, [row] if row else []
        self._passes: dict[int, Indices] = {}

    def indices(self, iteration: int) -> Indices:
        """The samples of an iteration's batch, in order."""
        begin, end = iteration * self._batch, (iteration + 1) * self._batch
        first, last = begin // self._samples, (end - 1) // self._samples
        row = np.concatenate([self._shuffled(number) for number in range(first, last + 1)])
        self._passes = {number: each for number, each in self._passes.items() if number >= first}
        return row[begin - first * self._samples : end - first * self._samples]

    def _shuffled(self, number: int) -> Indices:
        if number not in self._passes:
            self._passes[number] = np.random.default_rng([self._seed, number, *self._row]).permutation(self._samples)
        return self._passes[number]


def shards(samples: int, proportions: Sequence[float], seed: int) -> list[Indices]:
    """The data split by the seed into shards with sizes in these proportions."""
    order = np.random.default_rng([seed, samples, len(proportions)]).permutation(samples)
    return [np.sort(part) for part in np.split(order, _ends(samples, proportions)[:-1])]


def shard_sizes(samples: int, proportions: Sequence[float]) -> list[int]:
    """The number of samples in each shard."""
    return [int(size) for size in np.diff(_ends(samples, proportions), prepend=0)]


def _ends(samples: int, proportions: Sequence[float]) -> NDArray[np.int64]:
    reached: NDArray[np.float64] = np.cumsum(proportions) / np.sum(proportions)
    return np.rint(reached * samples).astype(np.int64)
