"""Marks connections as background traffic, for networks that know classes of traffic.

The mark is the type of service in the IP header of each packet. The testbed of namespaces sends packets with it after
all others, on every link that they pass; so does Linux where a device has a queue of ``pfifo_fast``. Other networks may
ignore it.

gloo opens its sockets itself; they are found among those that this process has after they were opened and not before.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# "Maximise throughput", whatever the delay.
BACKGROUND_TOS = 0x08
_OPEN_FILES = Path("/proc/self/fd")


@contextmanager
def background_connections() -> Iterator[None]:
    """Mark the TCP connections that are opened meanwhile; does nothing where open files cannot be listed."""
    before = _sockets()
    yield
    for name, descriptor in _sockets().items():
        if name not in before:
            with suppress(OSError):  # closed again, or of another kind
                _mark(descriptor)


def _sockets() -> dict[str, int]:
    """The open sockets by their names, which are never used again, as their descriptors may be."""
    found = {}
    for path in _OPEN_FILES.iterdir() if _OPEN_FILES.is_dir() else ():
        with suppress(OSError):
            name = str(path.readlink())
            if name.startswith("socket:"):
                found[name] = int(path.name)
    return found


def _mark(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.type == socket.SOCK_STREAM and connection.family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, BACKGROUND_TOS)
