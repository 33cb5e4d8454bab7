"""The engine at a hub: which hub, and the workers that have dialled in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from palmette.errors import ArgumentFault, InputError, RunError
from palmette.runtime.data.kept_samples import file_name
from palmette.runtime.engines.base import Engine
from palmette.runtime.engines.crew import START_PATIENCE_S
from palmette.runtime.engines.hub.crew import HubCrew
from palmette.runtime.engines.hub.membership import HubMembership
from palmette.runtime.engines.hub.messages import HUB, DeleteSamples, FetchKept
from palmette.runtime.engines.hub.open_hubs import open_hub
from palmette.runtime.engines.hub.orders import folder_id
from palmette.runtime.engines.hub.prober import HubProber, ask_workers
from palmette.runtime.engines.hub.relays import RelayRendezvous
from palmette.runtime.engines.hub.server import HubServer
from palmette.runtime.phase_programs import PhasePart
from palmette.runtime.transports.rendezvous import Site
from palmette.runtime.transports.service import RunningService, Service
from palmette.runtime.worker.commands import KeptDeleted, StateReply
from palmette.runtime.worker.kept_state import write_kept_bytes
from palmette.spec.plan import Phase

LISTEN = "0.0.0.0:8443"
"""Where a hub listens if the user does not say."""


def hub_engine(listen: str | None, keys: Path | None, nodes: Sequence[str]) -> Engine:
    """The engine at a hub of this process; waits for the workers of the nodes.

    Raises:
        InputError: there are no keys, it cannot listen there, or a node has the hub's own name.
        RunError: a node has no worker.
    """
    hub = _attended(listen, keys, nodes)
    return Engine(
        start=partial(HubCrew, hub),
        site=_site,
        rendezvous=RelayRendezvous(hub),
        delete_samples=partial(_delete_samples, hub),
    )


def _delete_samples(hub: HubServer, folder: Path, nodes: Iterable[str]) -> None:
    """Have workers delete what they keep; one that leaves meanwhile does so by itself when it starts again."""
    for node in hub.present().intersection(nodes):
        with suppress(RunError):
            request = DeleteSamples(samples=folder_id(folder / file_name(node)))
            ask_workers(hub, {node: request}, KeptDeleted)


def hub_prober(listen: str | None, keys: Path | None, nodes: Sequence[str], optional: Sequence[str]) -> HubProber:
    """Measurements by workers at a hub of this process; waits for those of ``nodes``, and takes others if there.

    Raises:
        InputError: there are no keys, it cannot listen there, or a node has the hub's own name.
        RunError: a node has no worker.
    """
    hub = _attended(listen, keys, nodes)
    return HubProber(hub, [*nodes, *(node for node in optional if hub.connection(node) is not None)])


def fetch_kept_at_hub(
    listen: str | None, keys: Path | None, nodes: Sequence[str], *, folder: Path, iterations: int, patience_s: float
) -> None:
    """Write into a folder what the workers of nodes have kept there of the state after so many iterations.

    Raises:
        InputError: there are no keys, it cannot listen there, or a node has the hub's own name.
        RunError: a node has no worker, or what it has cannot be written here.
    """
    hub = _attended(listen, keys, nodes)
    request = FetchKept(kept=folder_id(folder), iterations=iterations, patience_s=patience_s)
    for node, found in ask_workers(hub, dict.fromkeys(nodes, request), StateReply).items():
        try:
            write_kept_bytes(folder, node, iterations, found.weights, found.optimizer)
        except OSError as error:
            raise RunError(f"cannot write {folder}: {error.strerror}") from None


def hub_membership(listen: str | None, keys: Path | None) -> HubMembership:
    """Which workers are at a hub of this process."""
    return HubMembership(_opened(listen, keys))


def _attended(listen: str | None, keys: Path | None, nodes: Sequence[str]) -> HubServer:
    """The hub, once the workers of some nodes are there."""
    if HUB in nodes:
        raise InputError(ArgumentFault("engine", "hub", f"{HUB} is the name of the hub itself; expected another node"))
    hub = _opened(listen, keys)
    missing = hub.wait_for(nodes, START_PATIENCE_S)
    if missing:
        port = hub.address.rpartition(":")[2]
        start = f"start on its machine: palmette worker HOST:{port} --keys DIR --node"
        first = min(missing)
        raise RunError(f"node {', '.join(sorted(missing))}: no worker has come to {hub.address}; {start} {first}")
    return hub


def _opened(listen: str | None, keys: Path | None) -> HubServer:
    if keys is None:
        expected = "expected a folder with the keys of the authority and of the hub: palmette keys issue hub"
        raise InputError(ArgumentFault("keys", "missing", expected))
    return open_hub(listen or LISTEN, keys)


def _site(_folder: Path, phase: Phase, parts: Sequence[PhasePart]) -> Site:
    """The nodes of a phase, wherever they are: the hub alone has an address."""
    return Site(nodes=phase.nodes(), parts=parts, addresses={}, serve=_serve)


def _serve(node: str, service: Service) -> RunningService:
    raise AssertionError(f"{service.name} is not served on node {node}: the hub is the only one that listens")
