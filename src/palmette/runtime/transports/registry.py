"""The transports by name, one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from palmette.runtime.transports.rendezvous import FileRendezvous, Rendezvous, StoreRendezvous
from palmette.spec.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class TransportSettings:
    """What a transport is made from.

    ``here`` is this machine's address where the nodes are hosts that share no files; None where all are on this
    machine. ``keys`` and ``hub`` are those that the user has chosen.
    """

    cluster: Cluster
    nodes: Sequence[str]
    here: str | None = None
    keys: Path | None = None
    hub: str | None = None


@dataclass(frozen=True, kw_only=True)
class TransportKind:
    """How the workers of a transport find each other, and whether nodes authenticate with keys."""

    rendezvous: Callable[[TransportSettings], Rendezvous]
    uses_keys: bool = False


def _gloo(settings: TransportSettings) -> Rendezvous:
    return FileRendezvous() if settings.here is None else StoreRendezvous(settings.here)


def _tls(settings: TransportSettings) -> Rendezvous:
    """Raises: InputError: the keys on this machine lack those of a node."""
    from palmette.runtime.transports.tls.rendezvous import HubRendezvous, refuse_missing_keys

    if settings.keys is not None and settings.here is None:
        refuse_missing_keys(settings.keys, settings.nodes)
    return HubRendezvous(settings.cluster, settings.keys, settings.hub)


TRANSPORTS: dict[str, TransportKind] = {
    "gloo": TransportKind(rendezvous=_gloo),
    "tls": TransportKind(rendezvous=_tls, uses_keys=True),
}
