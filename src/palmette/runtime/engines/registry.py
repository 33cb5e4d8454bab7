"""The engines by name, one row each; what an engine consists of is imported where it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.runtime.engines.base import Engine, EngineSettings
    from palmette.runtime.engines.membership import Membership
    from palmette.runtime.engines.probes import CarryOut, Prober


@dataclass(frozen=True, kw_only=True)
class EngineKind:
    """How to get an engine for some nodes.

    ``real_hosts``: every node is a real machine, not an emulated one. ``transport`` is the only one that it has, None
    where any will do. One that ``listens`` waits for workers that dial in, and all messages pass it. ``prober`` is for
    real hosts: it has requests carried out there, by what is given. Where ``workers_outlive`` the engine, they keep
    their state when it is gone; ``fetch_kept`` brings it into a folder here, where they are elsewhere.
    """

    engine: Callable[[EngineSettings], Engine]
    membership: Callable[[EngineSettings], Membership]
    real_hosts: bool = False
    transport: str | None = None
    listens: bool = False
    prober: Callable[[EngineSettings, CarryOut], Prober] | None = None
    workers_outlive: bool = True
    fetch_kept: Callable[[EngineSettings, Path, int, float], None] | None = None


def _local(_settings: EngineSettings) -> Engine:
    from palmette.runtime.engines.base import Engine
    from palmette.runtime.engines.local import ProcessCrew
    from palmette.runtime.engines.testbed import on_loopback

    return Engine(start=ProcessCrew, site=on_loopback)


def _local_membership(_settings: EngineSettings) -> Membership:
    from palmette.runtime.engines.membership import LocalMembership

    return LocalMembership()


def _ray(settings: EngineSettings) -> Engine:
    """Raises: InputError: there is no cluster, or it lacks a host for a node."""
    from palmette.runtime.engines.base import Engine
    from palmette.runtime.engines.ray.crew import RayCrew
    from palmette.runtime.engines.ray.hosts import Hosts

    hosts = Hosts(settings.nodes)
    return Engine(
        start=partial(RayCrew, hosts),
        site=hosts.site,
        here=hosts.here,
        addresses=hosts.addresses,
        delete_samples=hosts.delete_samples,
    )


def _ray_membership(_settings: EngineSettings) -> Membership:
    from palmette.runtime.engines.ray.hosts import RayMembership

    return RayMembership()


def _ray_prober(settings: EngineSettings, carry_out: CarryOut) -> Prober:
    from palmette.runtime.engines.ray.prober import RayProber

    return RayProber(settings.nodes, settings.optional, carry_out)


def _hub(settings: EngineSettings) -> Engine:
    """Raises: InputError: it cannot listen there, or a node has no worker."""
    from palmette.runtime.engines.hub.engine import hub_engine

    return hub_engine(settings.listen, settings.keys, settings.nodes)


def _hub_membership(settings: EngineSettings) -> Membership:
    from palmette.runtime.engines.hub.engine import hub_membership

    return hub_membership(settings.listen, settings.keys)


def _hub_prober(settings: EngineSettings, _carry_out: CarryOut) -> Prober:
    """Workers at a hub know themselves how to carry out requests."""
    from palmette.runtime.engines.hub.engine import hub_prober

    return hub_prober(settings.listen, settings.keys, settings.nodes, settings.optional)


def _fetch_kept_at_hub(settings: EngineSettings, folder: Path, iterations: int, patience_s: float) -> None:
    from palmette.runtime.engines.hub.engine import fetch_kept_at_hub

    where = settings.listen, settings.keys, settings.nodes
    fetch_kept_at_hub(*where, folder=folder, iterations=iterations, patience_s=patience_s)


ENGINES: dict[str, EngineKind] = {
    "local": EngineKind(engine=_local, membership=_local_membership),
    "ray": EngineKind(
        engine=_ray, membership=_ray_membership, real_hosts=True, prober=_ray_prober, workers_outlive=False
    ),
    "hub": EngineKind(
        engine=_hub,
        membership=_hub_membership,
        real_hosts=True,
        transport="tls",
        listens=True,
        prober=_hub_prober,
        fetch_kept=_fetch_kept_at_hub,
    ),
}
