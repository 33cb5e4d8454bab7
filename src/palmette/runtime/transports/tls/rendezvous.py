"""The rendezvous at a hub: which node runs it, and which keys are used."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from palmette.errors import Fault, InputError
from palmette.runtime.phase_programs import PhasePart, background_channels
from palmette.runtime.transports.base import Endpoint
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.held import HeldKeys, temporary_keys
from palmette.runtime.transports.rendezvous import Site
from palmette.runtime.transports.service import RunningService
from palmette.runtime.transports.tls.frames import TOKEN_BYTES
from palmette.runtime.transports.tls.hub import HubSetup
from palmette.runtime.transports.tls.transport import HubEndpoint
from palmette.spec.cluster import Cluster

_A_RUN_DAYS = 30


class HubRendezvous:
    """Over gRPC with mutual TLS, on a network that you do not trust.

    ``keys`` is a folder as ``palmette keys`` makes it; without one, keys are made for this run only, in memory. ``hub``
    is the node that all others can reach; without one, or if it is not part of the phase, a node is chosen by its
    traffic.
    """

    def __init__(self, cluster: Cluster, keys: Path | None = None, hub: str | None = None) -> None:
        self._cluster, self._given, self._wanted = cluster, keys, hub
        self._hub: RunningService | None = None

    def open(self, site: Site) -> None:
        """Make keys if none are given, and start the hub.

        Raises:
            RunError: the hub cannot listen, or its key is not valid.
        """
        node = self._wanted if self._wanted in site.nodes else None
        node = node or choose_hub(site.parts, site.nodes, self._cluster)
        self._keys = self._given.absolute() if self._given is not None else temporary_keys(site.nodes, _A_RUN_DAYS)
        token, channels = secrets.token_bytes(TOKEN_BYTES), tuple(site.channels)
        local = None if site.folder is None else site.folder / "hub"
        setup = HubSetup(node, self._keys_of(node), token, tuple(site.nodes), channels, site.addresses[node], local)
        self._hub = site.serve(node, setup)
        background = background_channels(site.parts)
        self._endpoint = HubEndpoint(self._hub.info, self._keys_of(node), token, channels, background)

    def _keys_of(self, node: str) -> Path | HeldKeys:
        return self._keys.of(node) if isinstance(self._keys, HeldKeys) else self._keys

    def endpoint(self, node: str) -> Endpoint:
        """An endpoint at the hub, with the node's own keys."""
        return replace(self._endpoint, keys=self._keys_of(node))

    def close(self) -> None:
        """Stop the hub."""
        if self._hub is not None:
            self._hub.close()
            self._hub = None


def refuse_missing_keys(keys: Path, nodes: Iterable[str]) -> None:
    """Refuse a folder of keys that lacks those of some nodes, or in which they are not valid.

    Raises:
        InputError: names all faults.
    """
    wrong: list[Fault] = []
    for node in nodes:
        try:
            Keys(keys).credentials(node)
        except InputError as error:
            wrong += [fault for fault in error.faults if fault not in wrong]
    if wrong:
        raise InputError(wrong)


def choose_hub(parts: Sequence[PhasePart], nodes: Sequence[str], cluster: Cluster) -> str:
    """The node that leaves the least traffic between others to relay; a device only if there is nothing else.

    A device is rarely reachable from outside.
    """
    carried = _carried_bytes(parts)
    reachable = [node for node in nodes if cluster.nodes[node].tier != "device"] or list(nodes)
    return max(reachable, key=lambda node: carried.get(node, 0.0))


def _carried_bytes(parts: Sequence[PhasePart]) -> Mapping[str, float]:
    """How much each node sends and receives in an iteration."""
    found: dict[str, float] = {}
    for part in parts:
        for step, size in zip(part.made.steps, part.made.size_bytes, strict=True):
            if step.to is not None:
                for node in (step.node, step.to):
                    found[node] = found.get(node, 0.0) + size
    return found
