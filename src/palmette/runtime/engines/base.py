"""What an engine is, and what it is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palmette.runtime.engines.crew import Crew
from palmette.runtime.engines.testbed import SiteMaker
from palmette.runtime.transports.rendezvous import Rendezvous
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.setup import Setup

CrewMaker = Callable[[Mapping[str, Setup], Mapping[str, ProcessInitializer | None]], Crew]


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What an engine is made from: the nodes, and, for one that listens, where, and the folder of its keys.

    What measures also uses the machines of ``optional`` nodes, if they are there.
    """

    nodes: Sequence[str] = ()
    optional: Sequence[str] = ()
    listen: str | None = None
    keys: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How to start the workers of some nodes, and where they are.

    ``here`` is this machine's address among real hosts, ``addresses`` are those of the nodes there. ``rendezvous`` is
    where they meet, if the engine itself connects them. ``delete_samples`` has nodes delete what they keep of a run's
    folder of samples, those that are there; None where that is a folder of this machine.
    """

    start: CrewMaker
    site: SiteMaker
    here: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    rendezvous: Rendezvous | None = None
    delete_samples: Callable[[Path, Iterable[str]], None] | None = None
