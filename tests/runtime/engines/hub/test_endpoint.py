"""The connections of a phase: background traffic has one of its own, which both ends have marked."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch

from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.endpoint import ConnectionEndpoint
from palmette.runtime.program import Channel
from palmette.runtime.transports import marking
from palmette.runtime.transports.marking import BACKGROUND_TOS
from palmette.runtime.transports.tls.frames import TOKEN_BYTES
from palmette.runtime.transports.tls.transport import TlsTransport
from tests.control.hub_workers import HubWorkers

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="lists the open files of Linux")
NODES, TOKEN = ("phone", "cloud"), bytes(range(TOKEN_BYTES))
SAMPLES, OUTPUTS = Channel(0, "phone", "cloud"), Channel(1, "phone", "cloud")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HubWorkers]:
    with HubWorkers(tmp_path) as made:
        yield made


@contextmanager
def connected(place: HubWorkers, background: frozenset[int]) -> Iterator[dict[str, TlsTransport]]:
    doors = {node: HubAccess(place.address, place.keys.credentials(node)) for node in NODES}
    close, channels = place.hub.open_relay(TOKEN, NODES, (SAMPLES, OUTPUTS)), (SAMPLES, OUTPUTS)
    lines = {node: door.dialled() for node, door in doors.items()}
    ends = [ConnectionEndpoint(lines[node], doors[node], TOKEN, channels, background) for node in NODES]
    with ThreadPoolExecutor() as pool:
        found = dict(zip(NODES, pool.map(ConnectionEndpoint.connect, ends, NODES), strict=True))
    yield found
    for node in NODES:
        found[node].close()
        lines[node].close()
    close()


def ends_of_connections(port: int) -> dict[tuple[int, int], bool]:
    """The connections of this process to and from a port, each end by its ports, and whether it is marked."""
    found = {}
    for descriptor in marking._sockets().values():
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
            if line.family != socket.AF_UNIX and port in (ports := (line.getsockname()[1], line.getpeername()[1])):
                found[ports] = line.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == BACKGROUND_TOS
    return found


def carried(workers: dict[str, TlsTransport], channel: Channel, message: torch.Tensor, **how: bool) -> torch.Tensor:
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(workers["phone"].send, channel, message, sized=False, **how)
        arrived = workers["cloud"].receive(channel, None)
        sending.result()
    return arrived


def test_background_traffic_has_a_marked_connection_of_its_own(place: HubWorkers) -> None:
    message = torch.randint(0, 256, (300_000,), dtype=torch.uint8)
    with connected(place, frozenset({SAMPLES.number})) as workers:
        assert carried(workers, SAMPLES, message, background=True).equal(message)
        assert carried(workers, OUTPUTS, message).equal(message)
        marked = ends_of_connections(place.hub.port)
    assert sorted(marked.values()) == [False] * 4 + [True] * 4, "two connections a node, of which both ends are here"
    assert all(marked[one] == marked[one[::-1]] for one in marked)


def test_without_any_there_is_one_connection(place: HubWorkers) -> None:
    """As for a worker that does not know classes of traffic."""
    with connected(place, frozenset()) as workers:
        message = torch.ones(10, dtype=torch.uint8)
        assert carried(workers, SAMPLES, message, background=True).equal(message)
        assert list(ends_of_connections(place.hub.port).values()) == [False] * 4
