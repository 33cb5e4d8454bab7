"""The interface between workers and training data."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from palmette.runtime.program import Program


class SampleReader(Protocol):
    """Provides the samples of sources."""

    def open(self, source: int) -> None:
        """Load what a source needs, so that its first samples take no longer than later ones."""
        ...

    def take(self, source: int, iteration: int) -> tuple[Tensor, Tensor]:
        """The inputs and labels that a source gives to an iteration."""
        ...


class SampleSource(Protocol):
    """Describes a worker's data; the samples are loaded where the worker runs."""

    def samples(self, program: Program) -> SampleReader:
        """The samples of the sources in a program."""
        ...
