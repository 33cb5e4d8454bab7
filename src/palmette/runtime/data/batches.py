"""Which samples an iteration uses; depends only on the data's size, the batch size, the seed and the iteration.

Of several nodes that own data of the same name, each has its own row, so that they do not draw the same samples.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
_FIXED = 1 << 32
"""Stands in place of a pass's number in the seed of the fixed order."""


class Batches:
    """An endless sequence of shuffled passes over the data, cut into batches; each ``row`` is shuffled differently."""

    def __init__(self, samples: int, batch: int, seed: int, *, row: int = 0) -> None:
        self._samples, self._batch, self._seed, self._row = samples, batch, seed, [row] if row else []
        self._passes: dict[int, Indices] = {}
        self._lock = threading.Lock()  # samples are sent ahead by one thread and used by another

    def indices(self, iteration: int) -> Indices:
        """The samples of an iteration's batch, in order."""
        begin, end = iteration * self._batch, (iteration + 1) * self._batch
        first, last = begin // self._samples, (end - 1) // self._samples
        with self._lock:
            row = np.concatenate([self._shuffled(number) for number in range(first, last + 1)])
            self._passes = {number: each for number, each in self._passes.items() if number >= first - 1}
        return row[begin - first * self._samples : end - first * self._samples]

    def passes(self, iteration: int) -> Indices:
        """The pass over the data, from 0, that each sample of a batch belongs to."""
        begin = iteration * self._batch
        return np.arange(begin, begin + self._batch, dtype=np.int64) // self._samples

    def _shuffled(self, number: int) -> Indices:
        if number not in self._passes:
            self._passes[number] = np.random.default_rng([self._seed, number, *self._row]).permutation(self._samples)
        return self._passes[number]


class DealtBatches(Batches):
    """Batches in an order of the whole data that never changes, so that their slices meet the same samples again."""

    def __init__(self, samples: int, batch: int, seed: int, *, row: int = 0) -> None:
        super().__init__(samples, batch, seed, row=row)
        self._places = np.random.default_rng([seed, _FIXED, row]).permutation(samples)

    def order(self, iteration: int) -> Indices:
        """Where in the batch as drawn the samples stand, in the fixed order."""
        return np.argsort(self._places[self.indices(iteration)], kind="stable")


def sample_seeds(numbers: Indices, passes: Indices, seed: int) -> list[int]:
    """A number for each sample that depends on the sample, the pass over the data and the run's seed alone."""
    with np.errstate(over="ignore"):
        mixed = np.full(len(numbers), seed & (2**64 - 1), dtype=np.uint64)
        for part in (numbers, passes):
            mixed = _splitmix64(mixed ^ _splitmix64(part.astype(np.uint64)))
    return [int(each) for each in mixed >> np.uint64(1)]


def _splitmix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


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
