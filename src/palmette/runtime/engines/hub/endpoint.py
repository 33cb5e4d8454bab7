"""Where a phase's workers connect: on the connection to the hub that each has already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.messages import HUB
from palmette.runtime.program import Channel
from palmette.runtime.transports.marking import GRPC_BACKGROUND
from palmette.runtime.transports.tls.connections import NetworkConnections
from palmette.runtime.transports.tls.transport import TlsTransport


@dataclass(frozen=True)
class ConnectionEndpoint:
    """An endpoint on a worker's connection; channels in the ``background`` get one more, to the same port.

    A hub that does not know this class of traffic serves their streams like all others.
    """

    dialled: Any
    access: HubAccess
    token: bytes = field(repr=False)
    channels: tuple[Channel, ...]
    background: frozenset[int] = frozenset()

    def connect(self, node: str) -> TlsTransport:
        """Open the streams of a phase; returns when all workers have."""
        behind = self.access.dialled(GRPC_BACKGROUND)
        connections = NetworkConnections(self.dialled, self.dialled, behind, own=(behind,))
        channels, background = self.channels, self.background
        try:
            return TlsTransport(
                connections, hub=HUB, token=self.token, channels=channels, node=node, background=background
            )
        except BaseException:
            connections.close()
            raise
