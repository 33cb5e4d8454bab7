"""Signs of life reach the driver, few bytes of them, and nobody else's count."""

from __future__ import annotations

import os
import socket
import time

import pytest

from palmette.runtime.engines.ray import heartbeats
from palmette.runtime.engines.ray.heartbeats import HeartbeatReceiver
from palmette.runtime.transports.heartbeat import heartbeat


def test_each_is_seen_by_its_own_beacon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "EVERY_S", 0.01)
    lookout = HeartbeatReceiver("127.0.0.1", ["phone", "cloud", "hut"])
    assert lookout.seen() == set()
    ends = [lookout.sender(node).start_sending() for node in ("cloud", "hut")]
    seen: set[str] = set()
    until = time.monotonic() + 10
    while len(seen) < 2 and time.monotonic() < until:
        seen |= lookout.seen()
    for end in ends:
        end.set()
    assert seen == {"cloud", "hut"}
    lookout.close()


@pytest.mark.timing
def test_datagrams_of_others_are_passed_over() -> None:
    lookout, other = HeartbeatReceiver("127.0.0.1", ["phone"]), HeartbeatReceiver("127.0.0.1", ["phone"])
    ours, theirs = lookout.sender("phone"), other.sender("phone")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        for words in (b"", os.urandom(12), os.urandom(9_000), heartbeat(theirs.token, 0)):
            line.sendto(words, (ours.address, ours.port))
        line.sendto(heartbeat(ours.token, 1), (ours.address, ours.port))  # no such node
        time.sleep(0.2)
        assert lookout.seen() == set()
        line.sendto(heartbeat(ours.token, 0), (ours.address, ours.port))
        time.sleep(0.2)
        assert lookout.seen() == {"phone"}
    lookout.close()
    other.close()


def test_a_sign_is_a_hundred_bytes_a_second_with_its_headers() -> None:
    headers = 14 + 20 + 8  # Ethernet, IP, UDP
    assert (len(heartbeat(bytes(8), 0)) + headers) / heartbeats.EVERY_S < 120
