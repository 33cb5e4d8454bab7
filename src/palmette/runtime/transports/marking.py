"""Marks connections as background traffic, for networks that know classes of traffic.

The mark is the type of service in the IP header of each packet. The testbed of namespaces sends packets with it after
all others, on every link that they pass; so does Linux where a device has a queue of ``pfifo_fast``. Other networks may
ignore it.

gloo opens its sockets itself; they are found among those that this process has after they were opened and not before.
gRPC marks those that it opens (``GRPC_BACKGROUND``); one that it has accepted is found by its other end.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

# "Maximise throughput", whatever the delay.
BACKGROUND_TOS = 0x08
GRPC_BACKGROUND = ("grpc.dscp", BACKGROUND_TOS >> 2)
"""The option of a gRPC channel whose connection is marked."""
_INTERNET = (socket.AF_INET, socket.AF_INET6)
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


def mark_from(peer: str) -> None:
    """Mark the connection with this other end, as gRPC writes it: ``ipv4:10.0.0.1:4711``, ``ipv6:%5B::1%5D:4711``."""
    _, _, address = unquote(peer).partition(":")
    host, _, port = address.rpartition(":")
    for descriptor in _sockets().values():
        with suppress(OSError):  # closed again, or connected to nothing
            if _other_end(descriptor) == (host.strip("[]"), port):
                _mark(descriptor)


def _other_end(descriptor: int) -> tuple[str, str] | None:
    """Host and port; None of what is no TCP connection."""
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.type != socket.SOCK_STREAM or connection.family not in _INTERNET:
            return None
        host, port, *_ = connection.getpeername()
    return str(host).removeprefix("::ffff:"), str(port)


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
        if connection.type == socket.SOCK_STREAM and connection.family in _INTERNET:
            connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, BACKGROUND_TOS)
            if connection.family == socket.AF_INET6:
                connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, BACKGROUND_TOS)
