"""Connections that are opened as background traffic are marked, and no others."""

from __future__ import annotations

import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from palmette.runtime.program import Channel
from palmette.runtime.transports import marking
from palmette.runtime.transports.gloo import FileEndpoint
from palmette.runtime.transports.marking import BACKGROUND_TOS, background_connections

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="lists the open files of Linux")
NODES = ("a", "b")


def connection() -> socket.socket:
    """A TCP connection, of which this is one end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return socket.create_connection(listening.getsockname())


def type_of_service(line: socket.socket) -> int:
    return line.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)


def marked() -> set[str]:
    """The sockets of this process that are marked."""
    found = set()
    for name, descriptor in marking._sockets().items():
        with socket.socket(fileno=marking.os.dup(descriptor)) as line:
            if line.family == socket.AF_INET and type_of_service(line) == BACKGROUND_TOS:
                found.add(name)
    return found


def test_what_is_opened_meanwhile_is_marked() -> None:
    with ExitStack() as stack:
        before = stack.enter_context(connection())
        with background_connections():
            meanwhile = stack.enter_context(connection())
            stack.enter_context(socket.socket(socket.AF_UNIX))
            datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        after = stack.enter_context(connection())
        assert [type_of_service(line) for line in (before, meanwhile, after)] == [0, BACKGROUND_TOS, 0]
        assert type_of_service(datagrams) == 0


def test_where_open_files_cannot_be_listed_nothing_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(marking, "_OPEN_FILES", tmp_path / "missing")
    with background_connections(), connection() as line:
        pass
    with background_connections():
        line = connection()
    assert type_of_service(line) == 0
    line.close()


@pytest.mark.parametrize(("background", "many"), [((), 0), ((7,), 2)])
def test_a_background_channel_over_gloo_has_a_marked_connection(
    tmp_path: Path, background: tuple[int, ...], many: int
) -> None:
    before = marked()
    endpoint = FileEndpoint(tmp_path / "store", NODES, channels=(Channel(7, *NODES),), background=background)
    with ThreadPoolExecutor() as pool:
        _transports = list(pool.map(endpoint.connect, NODES))
        # Both its ends are in this process, and so are those of the shared connection, which one of them may see open.
        assert many <= len(marked() - before) <= 2 * many
