"""The engines by name, one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from palmette.runtime.engines.crew import Crew
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.engines.membership import LocalMembership, Membership
from palmette.runtime.engines.testbed import SiteMaker, on_loopback
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.setup import Setup

CrewMaker = Callable[[Mapping[str, Setup], Mapping[str, ProcessInitializer | None]], Crew]


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How to start the workers of some nodes, and where they are.

    ``here`` is this machine's address among real hosts, ``addresses`` are those of the nodes there.
    """

    start: CrewMaker
    site: SiteMaker
    here: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EngineKind:
    """How to get an engine for some nodes.

    ``real_hosts``: every node is a real machine, not an emulated one.
    """

    engine: Callable[[Sequence[str]], Engine]
    membership: Callable[[], Membership]
    real_hosts: bool = False


def _local(_nodes: Sequence[str]) -> Engine:
    return Engine(start=ProcessCrew, site=on_loopback)


def _ray(nodes: Sequence[str]) -> Engine:
    """Raises: InputError: there is no cluster, or it lacks a host for a node."""
    from palmette.runtime.engines.ray.crew import RayCrew
    from palmette.runtime.engines.ray.hosts import Hosts

    hosts = Hosts(nodes)
    return Engine(start=partial(RayCrew, hosts), site=hosts.site, here=hosts.here, addresses=hosts.addresses)


def _ray_membership() -> Membership:
    from palmette.runtime.engines.ray.hosts import RayMembership

    return RayMembership()


ENGINES: dict[str, EngineKind] = {
    "local": EngineKind(engine=_local, membership=LocalMembership),
    "ray": EngineKind(engine=_ray, membership=_ray_membership, real_hosts=True),
}
