"""The rendezvous of a phase at a hub: a relay between its workers, on the connections that they already have."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Endpoint
from palmette.runtime.transports.rendezvous import Site
from palmette.runtime.transports.tls.frames import TOKEN_BYTES


@dataclass(frozen=True)
class RelayEndpoint:
    """A phase's channels and token, from which a worker makes an endpoint on its own connection."""

    token: bytes = field(repr=False)
    channels: Sequence[Channel]

    def connect(self, node: str) -> NoReturn:
        """Never called: only a worker at the hub connects."""
        raise AssertionError(f"node {node} connects on its own machine")


class RelayHost(Protocol):
    """What opens and closes relays."""

    def open_relay(self, token: bytes, nodes: Sequence[str], channels: Sequence[Channel]) -> Callable[[], None]:
        """Open a relay; returns what closes it."""
        ...


class RelayRendezvous:
    """Workers of a phase meet at the hub that they are connected to."""

    def __init__(self, host: RelayHost) -> None:
        self._host = host
        self._close: Callable[[], None] | None = None

    def open(self, site: Site) -> None:
        """Open a relay for the channels of the phase."""
        token, channels = secrets.token_bytes(TOKEN_BYTES), tuple(site.channels)
        self._close = self._host.open_relay(token, tuple(site.nodes), channels)
        self._endpoint = RelayEndpoint(token, channels)

    def endpoint(self, node: str) -> Endpoint:
        """The phase's channels."""
        return self._endpoint

    def close(self) -> None:
        """Close the relay."""
        if self._close is not None:
            self._close()
            self._close = None
