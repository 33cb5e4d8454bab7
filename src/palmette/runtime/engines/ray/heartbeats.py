"""Heartbeats from hosts to the driver: a datagram of twelve bytes, twice a second, from a separate thread.

A call through Ray costs some kilobytes, too many for a heartbeat. Where datagrams do not get through, no node counts as
silent, and only Ray's own, slower failure detection is left.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from palmette.runtime.transports.heartbeat import EVERY_S, TOKEN_BYTES, heartbeat, received_heartbeats


def _socket(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


@dataclass(frozen=True)
class HeartbeatSender:
    """A worker's heartbeat sender: where its datagrams go, and what they contain."""

    address: str
    port: int
    token: bytes = field(repr=False)
    number: int

    def start_sending(self) -> threading.Event:
        """Start sending, until the process ends or the returned event is set."""
        ended = threading.Event()
        threading.Thread(target=self._send, args=(ended,), name="heartbeats", daemon=True).start()
        return ended

    def _send(self, ended: threading.Event) -> None:
        datagram = heartbeat(self.token, self.number)
        with _socket(self.address) as line:
            while not ended.is_set():
                with contextlib.suppress(OSError):  # unreachable: the driver receives nothing
                    line.sendto(datagram, (self.address, self.port))
                ended.wait(EVERY_S)


class HeartbeatReceiver:
    """Receives the heartbeats of some nodes at an address of this machine."""

    def __init__(self, address: str, nodes: Sequence[str]) -> None:
        self._nodes, self._token = list(nodes), secrets.token_bytes(TOKEN_BYTES)
        self._line = _socket(address)
        self._line.setblocking(False)
        self._line.bind((address, 0))

    def sender(self, node: str) -> HeartbeatSender:
        """The heartbeat sender for a node."""
        address, port = self._line.getsockname()[:2]
        return HeartbeatSender(address, port, self._token, self._nodes.index(node))

    def seen(self) -> set[str]:
        """The nodes whose heartbeats have arrived since the last call."""
        return {
            self._nodes[number] for number in received_heartbeats(self._line, self._token) if number < len(self._nodes)
        }

    def close(self) -> None:
        """Stop receiving."""
        self._line.close()
