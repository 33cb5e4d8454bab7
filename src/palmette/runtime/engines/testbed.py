"""What workers run on, behind one interface: real machines, or a cluster that a testbed emulates."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from palmette.cost.evaluate import Evaluator
from palmette.runtime.engines.service import ServiceProcess
from palmette.runtime.engines.socket_folder import meeting_folder
from palmette.runtime.phase_programs import Part
from palmette.runtime.transports.base import Place
from palmette.runtime.transports.rendezvous import GlooMeeting, Meeting, Site
from palmette.runtime.transports.service import Entrance, Served, Service
from palmette.runtime.worker.commands import Rehearsal
from palmette.runtime.worker.executor import Pace
from palmette.spec.plan import Phase

Rehearsals = Mapping[str, Mapping[int, Rehearsal]]
"""Calibrations, by node and by the number of the program."""


class Ground(Protocol):
    """Gives workers their endpoints, network and pace; all times are multiplied by ``dilation``."""

    name: str
    dilation: float
    emulates: bool

    def open(self, phase: Phase, parts: Sequence[Part], evaluator: Evaluator) -> None:
        """Prepare for the workers of a phase, which execute the programs of its parts."""
        ...

    def place(self, node: str) -> Place:
        """The endpoint where the worker of a node connects to the others."""
        ...

    def entrance(self, node: str) -> Entrance | None:
        """The initializer that the worker's process runs first."""
        ...

    def settle(self, rehearsed: Rehearsals) -> dict[str, dict[int, Pace]]:
        """Choose the dilation after calibration; returns the pace of each node's programs."""
        ...

    def widen(self, by: float) -> dict[str, dict[int, Pace]] | None:
        """Increase the dilation by a factor while all nodes are idle; None where it is fixed."""
        ...

    def close(self) -> None:
        """Remove all that ``open`` has set up."""
        ...


SiteMaker = Callable[[Path, Phase, Sequence[Part]], Site]


def on_loopback(folder: Path, phase: Phase, parts: Sequence[Part]) -> Site:
    """A site with all nodes on this machine."""
    nodes = phase.nodes()
    addresses = dict.fromkeys(nodes, "127.0.0.1")
    return Site(folder=folder, nodes=nodes, parts=parts, addresses=addresses, serve=_served_here)


def _served_here(_node: str, service: Service) -> Served:
    return ServiceProcess(service, None)


class BareGround:
    """Real machines at full speed: this one alone, or those of the ``site``."""

    name = "none"
    dilation = 1.0
    emulates = False

    def __init__(self, meeting: Meeting | None = None, site: SiteMaker = on_loopback) -> None:
        self._meeting, self._site = meeting or GlooMeeting(), site
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def open(self, phase: Phase, parts: Sequence[Part], evaluator: Evaluator) -> None:
        """Create a folder, and open the rendezvous there."""
        self._folder = meeting_folder()
        self._meeting.open(self._site(Path(self._folder.name), phase, parts))

    def place(self, node: str) -> Place:
        """The endpoint of the rendezvous."""
        return self._meeting.place(node)

    def entrance(self, node: str) -> Entrance | None:
        """No initializer is needed."""
        return None

    def settle(self, rehearsed: Rehearsals) -> dict[str, dict[int, Pace]]:
        """Nothing is padded."""
        return {}

    def widen(self, by: float) -> dict[str, dict[int, Pace]] | None:
        """There is no dilation."""
        return None

    def close(self) -> None:
        """Close the rendezvous and remove the folder."""
        self._meeting.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
