"""The engines by name, one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from palmette.errors import ArgumentFault, InputError
from palmette.runtime.engines.crew import Crew
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.engines.membership import LocalMembership, Membership
from palmette.runtime.engines.testbed import SiteMaker, on_loopback
from palmette.runtime.transports.rendezvous import Rendezvous
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.setup import Setup

CrewMaker = Callable[[Mapping[str, Setup], Mapping[str, ProcessInitializer | None]], Crew]


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What an engine is made from: the nodes, and, for one that listens, where, and the folder of its keys."""

    nodes: Sequence[str] = ()
    listen: str | None = None
    keys: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How to start the workers of some nodes, and where they are.

    ``here`` is this machine's address among real hosts, ``addresses`` are those of the nodes there. ``rendezvous`` is
    where they meet, if the engine itself connects them.
    """

    start: CrewMaker
    site: SiteMaker
    here: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    rendezvous: Rendezvous | None = None


@dataclass(frozen=True, kw_only=True)
class EngineKind:
    """How to get an engine for some nodes.

    ``real_hosts``: every node is a real machine, not an emulated one. ``transport`` is the only one that it has, None
    where any will do. One that ``listens`` waits for workers that dial in. One that ``measures`` can also time layers
    and links where the nodes are.
    """

    engine: Callable[[EngineSettings], Engine]
    membership: Callable[[EngineSettings], Membership]
    real_hosts: bool = False
    transport: str | None = None
    listens: bool = False
    measures: bool = True


def _local(_settings: EngineSettings) -> Engine:
    return Engine(start=ProcessCrew, site=on_loopback)


def _local_membership(_settings: EngineSettings) -> Membership:
    return LocalMembership()


def _ray(settings: EngineSettings) -> Engine:
    """Raises: InputError: there is no cluster, or it lacks a host for a node."""
    from palmette.runtime.engines.ray.crew import RayCrew
    from palmette.runtime.engines.ray.hosts import Hosts

    hosts = Hosts(settings.nodes)
    return Engine(start=partial(RayCrew, hosts), site=hosts.site, here=hosts.here, addresses=hosts.addresses)


def _ray_membership(_settings: EngineSettings) -> Membership:
    from palmette.runtime.engines.ray.hosts import RayMembership

    return RayMembership()


def _hub(settings: EngineSettings) -> Engine:
    """Raises: InputError: it cannot listen there, or a node has no worker."""
    from palmette.runtime.engines.hub.engine import hub_engine

    return hub_engine(settings.listen, settings.keys, settings.nodes)


def _hub_membership(settings: EngineSettings) -> Membership:
    from palmette.runtime.engines.hub.engine import hub_membership

    return hub_membership(settings.listen, settings.keys)


ENGINES: dict[str, EngineKind] = {
    "local": EngineKind(engine=_local, membership=_local_membership),
    "ray": EngineKind(engine=_ray, membership=_ray_membership, real_hosts=True),
    "hub": EngineKind(
        engine=_hub, membership=_hub_membership, real_hosts=True, transport="tls", listens=True, measures=False
    ),
}


def refuse_unmeasurable(engine: str) -> None:
    """Refuse an engine that runs plans only.

    Raises:
        InputError: says so.
    """
    if not ENGINES[engine].measures:
        expected = f"runs plans only; expected {' or '.join(name for name, kind in ENGINES.items() if kind.measures)}"
        raise InputError(ArgumentFault("engine", engine, expected))
