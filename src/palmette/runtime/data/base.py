"""What a worker needs to know of training data, wherever it comes from."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from palmette.runtime.program import Program


class Samples(Protocol):
    """Where a source's samples come from."""

    def open(self, source: int) -> None:
        """Load what a source needs, so that its first samples take no longer than others."""
        ...

    def take(self, source: int, iteration: int) -> tuple[Tensor, Tensor]:
        """The inputs and labels that a source gives to an iteration."""
        ...


class Source(Protocol):
    """What a worker needs to find its samples, made where it runs."""

    def samples(self, program: Program) -> Samples:
        """The samples of the sources in a program."""
        ...
