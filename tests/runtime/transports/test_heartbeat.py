"""Peers that fall silent are noticed over the network itself."""

from __future__ import annotations

import socket
import threading
import time

import pytest
import torch

from palmette.errors import RunError
from palmette.runtime.program import Channel
from palmette.runtime.transports import heartbeat
from palmette.runtime.transports.heartbeat import FolderAddressBook, HeartbeatEndpoint, HeartbeatTransport
from palmette.runtime.transports.memory import MemoryTransport

NODES = ("a", "b")
THERE = Channel(0, "a", "b")
TOKEN = b"8 bytes!"


class Meeting:
    """A place in memory, where nodes wait for each other."""

    def __init__(self):
        self.transport, self._all = MemoryTransport(), threading.Barrier(len(NODES))

    def connect(self, node):
        self._all.wait(10)
        return self.transport


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """Two watched transports, impatient ones."""
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.02)
    monkeypatch.setattr(heartbeat, "SILENCE_S", 0.6)
    rendezvous = Meeting()
    found = {}

    def join(node, peer):
        found[node] = HeartbeatEndpoint(rendezvous, FolderAddressBook(tmp_path), NODES, [peer], TOKEN).connect(node)

    threads = [threading.Thread(target=join, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield found["a"], found["b"]
    for transport in found.values():
        transport.close()
    rendezvous.transport.close()


@pytest.mark.timing
def test_messages_pass_while_both_are_there(pair):
    a, b = pair
    message = torch.arange(5, dtype=torch.uint8)
    for _ in range(3):
        a.send(THERE, message)
        assert torch.equal(b.receive(THERE, 5), message)
        time.sleep(0.4)


@pytest.mark.timing
def test_whoever_waits_is_told_that_the_peer_is_silent(pair):
    a, b = pair
    a._heartbeats.close()
    began_s = time.monotonic()
    with pytest.raises(RunError, match=r"node a has not been heard from for 0.6 s \(its link may be cut\)"):
        b.receive(THERE, 5)
    assert time.monotonic() - began_s < 3


@pytest.mark.timing
def test_whoever_comes_later_is_told_at_once(pair):
    a, b = pair
    a._heartbeats.close()
    time.sleep(1.5)
    with pytest.raises(RunError, match="node a has not been heard from"):
        b.send(Channel(1, "b", "a"), torch.zeros(1, dtype=torch.uint8))


@pytest.mark.timing
def test_datagrams_of_others_do_not_count(pair, tmp_path):
    a, b = pair
    a._heartbeats.close()
    host, port = (tmp_path / "heartbeat-1").read_text().split()
    stop = time.monotonic() + 1.5
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        while time.monotonic() < stop:
            for datagram in (b"", b"nonsense", b"8 bytes?" + bytes(4), TOKEN + bytes([9, 0, 0, 0])):
                stranger.sendto(datagram, (host, int(port)))
            time.sleep(0.02)
    with pytest.raises(RunError, match="node a"):
        b.receive(THERE, 5)


class Broken(MemoryTransport):
    def receive(self, channel, size_bytes):
        raise OSError("torn")


class Silent:
    def watch(self, lost):
        """Nobody is ever lost."""

    def close(self):
        """Nothing to do."""


def test_an_error_of_the_transport_underneath_is_passed_on():
    watched = HeartbeatTransport(Broken(), Silent())
    with pytest.raises(OSError, match="torn"):
        watched.receive(THERE, 5)
    watched.close()


def test_how_a_message_is_sent_is_passed_on():
    class Noting(MemoryTransport):
        def send(self, channel, message, **how):
            noted.append(how)
            super().send(channel, message)

    noted: list[dict[str, bool]] = []
    watched = HeartbeatTransport(Noting(), Silent())
    watched.send(THERE, torch.ones(3, dtype=torch.uint8), sized=False, background=True)
    assert watched.receive(THERE, None).numel() == 3
    assert noted == [{"sized": False, "background": True}]
    watched.close()


def test_a_node_without_peers_is_not_watched(tmp_path):
    endpoint = HeartbeatEndpoint(Meeting(), tmp_path, NODES, [], TOKEN)
    endpoint.endpoint._all = threading.Barrier(1)
    assert isinstance(endpoint.connect("a"), MemoryTransport)
