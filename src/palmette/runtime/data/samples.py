"""The samples of each source: slices of common batches, slices of its node's own batches, or batches of its shard."""

from __future__ import annotations

import threading
from collections.abc import Callable

from torch import Tensor

from palmette.runtime.data.batches import Batches, Indices
from palmette.runtime.program import slices
from palmette.spec.plan import Phase
from palmette.zoo.data import DataSplit


class CommonBatches:
    """``step``: batch k is the same for every plan; sources take consecutive slices of it in the plan's order."""

    def __init__(self, phase: Phase, part: DataSplit, seed: int) -> None:
        self._part = part
        self._slices = slices(phase)
        self._batches = Batches(len(part), phase.batch, seed)
        self._lock = threading.Lock()  # sources of one node take in parallel, and a user's data may not be thread-safe

    def open(self, source: int) -> None:
        """Nothing to load."""

    def take(self, source: int, iteration: int) -> tuple[Tensor, Tensor]:
        """The inputs and labels that a source gives to an iteration."""
        begin, end = self._slices[source]
        with self._lock:
            return self._part.batch(self._batches.indices(iteration)[begin:end])


class NodeBatches:
    """``step`` where nodes name data: the sources of a node take consecutive slices of a batch of its own data.

    A node's batch has as many samples as the plan takes from all its sources, so that the node goes through its data
    pass by pass, however many branches use it.
    """

    def __init__(self, phase: Phase, node: str, part: DataSplit, seed: int, *, row: int = 0) -> None:
        self._part = part
        self._slices: dict[int, tuple[int, int]] = {}
        batch = 0
        for number, source in enumerate(phase.sources):
            if source.node == node:
                self._slices[number] = batch, batch + source.samples
                batch += source.samples
        self._batches = Batches(len(part), batch, seed, row=row)
        self._lock = threading.Lock()

    def open(self, source: int) -> None:
        """Nothing to load."""

    def take(self, source: int, iteration: int) -> tuple[Tensor, Tensor]:
        """The inputs and labels that a source of the node gives to an iteration."""
        begin, end = self._slices[source]
        with self._lock:
            return self._part.batch(self._batches.indices(iteration)[begin:end])


class ShardBatches:
    """The samples that one source owns, and the batches drawn from them."""

    def __init__(self, part: DataSplit, indices: Indices, batch: int, seed: int) -> None:
        self._part, self._indices = part, indices
        self._batches = Batches(len(indices), batch, seed)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """The inputs and labels of a step."""
        return self._part.batch(self._indices[self._batches.indices(step)])


class ShardedBatches:
    """``epoch`` and ``async``: each source draws its batches from its own shard."""

    def __init__(self, find: Callable[[int], ShardBatches]) -> None:
        self._find, self._found = find, dict[int, ShardBatches]()
        self._lock = threading.Lock()

    def open(self, source: int) -> None:
        """Load the shard of a source."""
        self._found[source] = self._find(source)

    def take(self, source: int, iteration: int) -> tuple[Tensor, Tensor]:
        """The inputs and labels that a source gives to its tree's step."""
        with self._lock:
            return self._found[source].batch(iteration)
