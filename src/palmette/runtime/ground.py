"""What workers stand on: this machine as it is, or a cluster that a testbed makes of it. One seam, no mode flags."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from palmette.cost.evaluate import Evaluator
from palmette.runtime.execute import Pace
from palmette.runtime.gloo import GlooPlace
from palmette.runtime.parts import Part
from palmette.runtime.worker import Place
from palmette.spec.plan import Phase

Entrance = Callable[[], None]
Seconds = Mapping[int, float]


class Ground(Protocol):
    """Gives workers their places, their network and their pace; times are stretched by ``dilation``."""

    name: str
    dilation: float
    emulates: bool

    def open(self, phase: Phase, parts: Sequence[Part], evaluator: Evaluator) -> None:
        """Get ready for the workers of a phase, who execute the programs of its parts."""
        ...

    def place(self, node: str) -> Place:
        """Where the worker of a node meets the others."""
        ...

    def entrance(self, node: str) -> Entrance | None:
        """What the worker's process does before anything else."""
        ...

    def settle(self, rehearsed: Mapping[str, Mapping[int, Seconds]]) -> dict[str, dict[int, Pace]]:
        """Choose the dilation; returns the pace of each node's programs. ``rehearsed`` are unpadded seconds."""
        ...

    def close(self) -> None:
        """Leave nothing behind."""
        ...


class BareGround:
    """This machine as it is: as fast as it can, over loopback."""

    name = "none"
    dilation = 1.0
    emulates = False

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._nodes: list[str] = []

    def open(self, phase: Phase, parts: Sequence[Part], evaluator: Evaluator) -> None:
        """Find a folder to meet in."""
        self._folder = tempfile.TemporaryDirectory(prefix="palmette-")
        self._nodes = phase.nodes()

    def place(self, node: str) -> Place:
        """All on loopback."""
        assert self._folder is not None, "open() comes first"
        return GlooPlace(Path(self._folder.name) / "store", tuple(self._nodes))

    def entrance(self, node: str) -> Entrance | None:
        """Nothing to do."""
        return None

    def settle(self, rehearsed: Mapping[str, Mapping[int, Seconds]]) -> dict[str, dict[int, Pace]]:
        """Nothing is padded."""
        return {}

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
