"""Messages of unknown size come off the wire before anybody asks for them, and errors reach who does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from palmette.runtime.program import Channel
from palmette.runtime.transports.base import ConnectionLost, TransportClosed
from palmette.runtime.transports.lengths import BadLength
from palmette.runtime.transports.memory import MemoryTransport
from palmette.testbed.namespaces import DelayedTransport
from palmette.testbed.read_ahead import ReadAhead
from tests.durations import lasting

SAMPLES, OUTPUT = Channel(0, "phone", "cloud"), Channel(1, "phone", "cloud")
TIMEOUT_S = 10.0


class Wire(MemoryTransport):
    """Counts the messages that were taken off it."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        message = super().receive(channel, size_bytes)
        self.taken += 1
        return message


class Failing(MemoryTransport):
    """A wire on which the second message of every channel is an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error, self._first = error, True

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        if not self._first:
            raise self._error
        self._first = False
        return super().receive(channel, size_bytes)


def message(number: int) -> Tensor:
    return torch.full((number + 1,), number, dtype=torch.uint8)


def eventually(true: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + TIMEOUT_S
    while not (found := true()) and time.monotonic() < until_s:
        time.sleep(0.001)
    return found


def test_unsized_messages_are_taken_off_the_wire_before_anybody_asks_for_them() -> None:
    wire = Wire()
    incoming = ReadAhead(wire)
    for number in range(5):
        wire.send(SAMPLES, message(number), sized=False)
    assert incoming.receive(SAMPLES, None).message.equal(message(0))
    assert eventually(lambda: wire.taken == 5)
    for number in range(1, 5):
        assert incoming.receive(SAMPLES, None).message.equal(message(number))
    incoming.close()


def test_each_has_the_moment_at_which_it_came() -> None:
    wire = Wire()
    incoming = ReadAhead(wire)
    for number in range(2):
        wire.send(SAMPLES, message(number), sized=False)
    incoming.receive(SAMPLES, None)
    assert eventually(lambda: wire.taken == 2)
    before_s = time.monotonic()
    assert incoming.receive(SAMPLES, None).due_s <= before_s
    incoming.close()


def test_a_message_of_known_size_stays_on_the_wire_until_somebody_asks_for_it() -> None:
    wire = Wire()
    incoming = ReadAhead(wire)
    for number in range(2):
        wire.send(OUTPUT, message(number))
    assert incoming.receive(OUTPUT, 1).message.equal(message(0))
    assert wire.taken == 1
    assert incoming.receive(OUTPUT, 2).message.equal(message(1))
    incoming.close()


@pytest.mark.parametrize("error", [ConnectionLost("gone", "phone"), BadLength("too long"), TransportClosed()])
def test_an_error_follows_the_messages_before_it_and_stays(error: Exception) -> None:
    incoming = ReadAhead(wire := Failing(error))
    wire.send(SAMPLES, message(3), sized=False)
    assert incoming.receive(SAMPLES, None).message.equal(message(3))
    for _ in range(2):
        with pytest.raises(type(error)):
            incoming.receive(SAMPLES, None)
    incoming.close()


def test_closing_wakes_whoever_waits_and_ends_the_threads() -> None:
    before = set(threading.enumerate())
    incoming = ReadAhead(MemoryTransport())
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(incoming.receive, channel, None) for channel in (SAMPLES, OUTPUT)]
        began = eventually(lambda: len(set(threading.enumerate()) - before) == 4)
        incoming.close()
        assert began
        for each in waiting:
            with pytest.raises(TransportClosed):
                each.result(TIMEOUT_S)
    assert eventually(lambda: set(threading.enumerate()) <= before)


@pytest.mark.timing
def test_the_latencies_of_messages_that_follow_one_another_do_not_add_up(tmp_path: Path) -> None:
    (tmp_path / "dilation").write_text("2.0")
    transport = DelayedTransport(MemoryTransport(), {"phone": 0.1}, {"phone": ()}, tmp_path / "dilation")
    began_s = time.monotonic()
    for number in range(5):
        transport.send(SAMPLES, message(number), sized=False)
    for number in range(5):
        assert transport.receive(SAMPLES, None).equal(message(number))
        assert time.monotonic() - began_s == lasting(0.2, most_s=0.35)  # 0.4 s for two
    transport.close()
