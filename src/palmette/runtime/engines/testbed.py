"""What workers run on, behind one interface: real machines, or a cluster that a testbed emulates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from palmette.cost.evaluate import Evaluator
from palmette.runtime.engines.service import ServiceProcess
from palmette.runtime.engines.socket_folder import SocketFolder, socket_folder
from palmette.runtime.phase_programs import PhasePart
from palmette.runtime.transports.base import Endpoint
from palmette.runtime.transports.rendezvous import FileRendezvous, Rendezvous, Site
from palmette.runtime.transports.service import ProcessInitializer, RunningService, Service
from palmette.runtime.worker.commands import Calibration
from palmette.runtime.worker.executor import Pace
from palmette.spec.plan import Phase

Calibrations = Mapping[str, Mapping[int, Calibration]]
"""Calibrations, by node and by the number of the program."""


class Testbed(Protocol):
    """Gives workers their endpoints, network and pace; all times are multiplied by ``dilation``."""

    name: str
    dilation: float
    emulates: bool
    moment_s: float
    """Emulated seconds so far: where the traces of links go on, from one phase and one plan to the next."""

    def open(self, phase: Phase, parts: Sequence[PhasePart], evaluator: Evaluator) -> None:
        """Prepare for the workers of a phase, which execute the programs of its parts."""
        ...

    def endpoint(self, node: str) -> Endpoint:
        """The endpoint where the worker of a node connects to the others."""
        ...

    def initializer(self, node: str) -> ProcessInitializer | None:
        """The initializer that the worker's process runs first."""
        ...

    def apply_calibration(self, calibrated: Calibrations) -> dict[str, dict[int, Pace]]:
        """Choose the dilation after calibration; returns the pace of each node's programs."""
        ...

    def increase_dilation(self, by: float) -> dict[str, dict[int, Pace]] | None:
        """Increase the dilation by a factor while all nodes are idle; None where it is fixed."""
        ...

    def close(self) -> None:
        """Remove all that ``open`` has set up."""
        ...


SiteMaker = Callable[[Path, Phase, Sequence[PhasePart]], Site]


def on_loopback(folder: Path, phase: Phase, parts: Sequence[PhasePart]) -> Site:
    """A site with all nodes on this machine."""
    nodes = phase.nodes()
    addresses = dict.fromkeys(nodes, "127.0.0.1")
    return Site(folder=folder, nodes=nodes, parts=parts, addresses=addresses, serve=_served_here)


def _served_here(_node: str, service: Service) -> RunningService:
    return ServiceProcess(service, None)


class NoTestbed:
    """Real machines at full speed: this one alone, or those of the ``site``."""

    name = "none"
    dilation = 1.0
    emulates = False
    moment_s = 0.0

    def __init__(self, rendezvous: Rendezvous | None = None, site: SiteMaker = on_loopback) -> None:
        self._rendezvous, self._site = rendezvous or FileRendezvous(), site
        self._folder: SocketFolder | None = None

    def open(self, phase: Phase, parts: Sequence[PhasePart], evaluator: Evaluator) -> None:
        """Create a folder, and open the rendezvous there."""
        self._folder = socket_folder()
        self._rendezvous.open(self._site(Path(self._folder.name), phase, parts))

    def endpoint(self, node: str) -> Endpoint:
        """The endpoint of the rendezvous."""
        return self._rendezvous.endpoint(node)

    def initializer(self, node: str) -> ProcessInitializer | None:
        """No initializer is needed."""
        return None

    def apply_calibration(self, calibrated: Calibrations) -> dict[str, dict[int, Pace]]:
        """Nothing is padded."""
        return {}

    def increase_dilation(self, by: float) -> dict[str, dict[int, Pace]] | None:
        """There is no dilation."""
        return None

    def close(self) -> None:
        """Close the rendezvous and remove the folder."""
        self._rendezvous.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
