"""The transports by name, one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from palmette.runtime.transports.rendezvous import GlooMeeting, Meeting, StoreMeeting
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

    rendezvous: Callable[[TransportSettings], Meeting]
    uses_keys: bool = False


def _gloo(settings: TransportSettings) -> Meeting:
    return GlooMeeting() if settings.here is None else StoreMeeting(settings.here)


def _tls(settings: TransportSettings) -> Meeting:
    """Raises: InputError: the keys on this machine lack those of a node."""
    from palmette.runtime.transports.tls.meeting import TlsMeeting, refuse_lacking

    if settings.keys is not None and settings.here is None:
        refuse_lacking(settings.keys, settings.nodes)
    return TlsMeeting(settings.cluster, settings.keys, settings.hub)


TRANSPORTS: dict[str, TransportKind] = {
    "gloo": TransportKind(rendezvous=_gloo),
    "tls": TransportKind(rendezvous=_tls, uses_keys=True),
}
