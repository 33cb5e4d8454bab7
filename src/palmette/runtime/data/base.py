"""The interface between workers and training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from palmette.runtime.data.batches import Indices
from palmette.runtime.program import Program
from palmette.zoo.data.base import LabelTree


class SampleReader(Protocol):
    """The samples of a program's sources: on every node which ones, and how they become inputs; on their own node, the
    samples themselves.
    """

    def open(self, source: int) -> None:
        """Load what a source needs, so that its first samples take no longer than later ones."""
        ...

    def size(self, source: int) -> int:
        """How many samples a source's data has."""
        ...

    def drawn(self, source: int, iteration: int) -> Indices:
        """The samples that a source gives to an iteration, by their numbers in its data."""
        ...

    def uploaded(self, source: int, iteration: int) -> Indices:
        """The samples that an iteration uploads for a later phase, by their numbers in the source's data."""
        ...

    def order(self, iteration: int) -> Indices | None:
        """Where in the batch as drawn each sample stands that sources take, in the plan's order; None if as drawn."""
        ...

    def stored(self, source: int, numbers: Indices) -> list[bytes]:
        """Samples of a source as they are stored."""
        ...

    def labels(self, source: int, numbers: Indices) -> LabelTree:
        """Labels of a source's samples."""
        ...

    def inputs(self, source: int, iteration: int, stored: Sequence[bytes]) -> Tensor:
        """What the network takes, from the stored samples that a source gives to an iteration."""
        ...

    def targets(self, iteration: int, labels: LabelTree) -> LabelTree:
        """Labels of an iteration's samples as the loss takes them, from those that are stored."""
        ...


class SampleSource(Protocol):
    """Describes a worker's data; the samples are loaded where the worker runs."""

    def samples(self, program: Program) -> SampleReader:
        """The samples of the sources in a program."""
        ...
