"""The store of a rendezvous: it listens at its own address, and nobody without the secret reads or writes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, deliver_challenge

import pytest
import torch

from palmette.errors import RunError
from palmette.runtime.program import Channel
from palmette.runtime.transports.gloo import StoreEndpoint
from palmette.runtime.transports.store import _MOST_BYTES, _MOST_STRANGERS, NetworkStore, StoreAddressBook, StoreServer


@pytest.fixture
def server() -> Iterator[StoreServer]:
    """A store that listens."""
    made = StoreServer("127.0.0.1")
    yield made
    made.close()


def all_said(line: Connection) -> list[bytes]:
    """All that comes until the other end hangs up."""
    said: list[bytes] = []
    while True:
        try:
            said.append(line.recv_bytes())
        except (EOFError, OSError):
            return said


def test_nodes_find_each_other_through_it(server: StoreServer) -> None:
    nodes = ("a", "b", "c")
    endpoint, channel = StoreEndpoint(server.address, nodes, "127.0.0.1"), Channel(0, "a", "c")
    with ThreadPoolExecutor() as pool:
        met = dict(zip(nodes, pool.map(endpoint.connect, nodes), strict=True))
        message = torch.arange(9, dtype=torch.uint8)
        sending = pool.submit(met["a"].send, channel, message)
        assert met["c"].receive(channel, 9).equal(message)
        sending.result()


def test_a_text_is_read_as_soon_as_it_is_written(server: StoreServer) -> None:
    book = StoreAddressBook(server.address)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(book.read, "addresses")
        book.write("addresses", "here")
        assert reading.result(10) == "here"


def test_it_listens_at_its_address_only(server: StoreServer) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.address.port), timeout=5)


def test_a_stranger_neither_reads_nor_writes(server: StoreServer) -> None:
    StoreAddressBook(server.address).write("address", "true")
    with pytest.raises(RunError, match="is gone"):
        NetworkStore(replace(server.address, secret=b"a guess"))
    with Connection(socket.create_connection(("127.0.0.1", server.address.port)).detach()) as line:
        line.recv_bytes()  # the challenge, which is not answered
        line.send_bytes(b"Gaddress")
        assert b"true" not in all_said(line)
    assert StoreAddressBook(server.address).read("address") == "true"


def test_a_member_cannot_change_what_another_has_written(server: StoreServer) -> None:
    StoreAddressBook(server.address).write("address", "first")
    with pytest.raises(RunError):
        StoreAddressBook(server.address).write("address", "second")
    assert StoreAddressBook(server.address).read("address") == "first"


def test_a_value_that_is_too_long_is_refused(server: StoreServer) -> None:
    with pytest.raises(RunError):
        StoreAddressBook(server.address).write("address", "x" * (_MOST_BYTES + 1))


def test_silent_strangers_take_bounded_room(server: StoreServer) -> None:
    address = ("127.0.0.1", server.address.port)
    many = [socket.create_connection(address) for _ in range(_MOST_STRANGERS + 50)]
    assert sum(thread.name == "store" for thread in threading.enumerate()) <= _MOST_STRANGERS + 1
    for each in many:
        each.close()


def test_a_store_that_does_not_know_the_secret_is_not_believed(server: StoreServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        at = replace(server.address, port=listening.getsockname()[1])
        joining = pool.submit(NetworkStore, at)
        line = Connection(listening.accept()[0].detach())
        with pytest.raises(AuthenticationError):
            deliver_challenge(line, b"a guess")
        line.close()
        with pytest.raises(RunError, match="is gone"):
            joining.result(10)


def test_who_waits_is_told_that_the_store_has_ended() -> None:
    server = StoreServer("127.0.0.1")
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(StoreAddressBook(server.address).read, "never")
        StoreAddressBook(server.address).write("other", "is here")
        server.close()
        with pytest.raises(RunError, match="is gone"):
            reading.result(10)
