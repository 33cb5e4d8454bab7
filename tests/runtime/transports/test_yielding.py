"""A background message gives way to foreground ones of the same worker, piece by piece."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from palmette.runtime.program import Channel
from palmette.runtime.transports.gloo import GlooTransport
from palmette.runtime.transports.lengths import LENGTH_BYTES
from palmette.runtime.transports.tls.frames import Frame, FrameKind, decoded
from palmette.runtime.transports.tls.transport import TlsTransport
from palmette.runtime.transports.yielding import PIECE_BYTES, SendGate, pieces_of

SAMPLES, OUTPUT, GRADIENT = Channel(0, "a", "b"), Channel(1, "a", "b"), Channel(2, "a", "c")
TIMEOUT_S = 10.0


class Begun(NamedTuple):
    """What has been given to the network; it has left once it is ``released``."""

    channel: int
    size_bytes: int
    released: threading.Event

    def wait(self) -> None:
        assert self.released.wait(TIMEOUT_S)


class HeldNetwork:
    """Connections on which nothing leaves until it is released."""

    ranks = {"a": 0, "b": 1, "c": 2}

    def __init__(self) -> None:
        self.begun: SimpleQueue[Begun] = SimpleQueue()
        self.group = self

    def send(self, parts: list[Tensor], _rank: int, tag: int) -> Begun:
        (part,) = parts
        begun = Begun(tag, part.numel(), threading.Event())
        self.begun.put(begun)
        return begun

    def next(self) -> Begun:
        """Wait until something is given to the network."""
        return self.begun.get(timeout=TIMEOUT_S)


class WatchedGate(SendGate):
    """Shows that a background message has come to wait for its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Semaphore(0)

    def _await_turn(self) -> None:
        self.asked.release()
        super()._await_turn()


@contextmanager
def worker(gate: SendGate) -> Iterator[tuple[HeldNetwork, Any]]:
    """A held network, and what sends a message over it in a thread of its own."""
    network = HeldNetwork()
    transport: Any = GlooTransport(network, {})  # type: ignore[arg-type]
    transport._gate = gate
    with ThreadPoolExecutor() as pool:

        def send(channel: Channel, size: int) -> Future[None]:
            background = channel is SAMPLES
            message = torch.zeros(size, dtype=torch.uint8)
            return pool.submit(transport.send, channel, message, sized=not background, background=background)

        yield network, send


def test_a_foreground_message_waits_for_one_piece_at_most() -> None:
    gate = WatchedGate()
    with worker(gate) as (network, send):
        samples = send(SAMPLES, 3 * PIECE_BYTES + 1)
        length = network.next()
        assert (length.channel, length.size_bytes) == (SAMPLES.number, LENGTH_BYTES)
        length.released.set()
        first = network.next()
        assert (first.channel, first.size_bytes) == (SAMPLES.number, PIECE_BYTES)
        gradient = send(GRADIENT, 5_000_000)  # to another node than the samples
        long = network.next()
        assert (long.channel, long.size_bytes) == (GRADIENT.number, 5_000_000)
        first.released.set()
        for _ in range(3):  # the length, the first piece, and now the second, which has to wait
            assert gate.asked.acquire(timeout=TIMEOUT_S)
        output = send(OUTPUT, 7)
        short = network.next()
        assert short.channel == OUTPUT.number
        long.released.set()
        gradient.result(TIMEOUT_S)
        assert network.begun.empty()
        short.released.set()
        output.result(TIMEOUT_S)
        for size in (PIECE_BYTES, PIECE_BYTES, 1):
            piece = network.next()
            assert (piece.channel, piece.size_bytes) == (SAMPLES.number, size)
            piece.released.set()
        samples.result(TIMEOUT_S)


class HeldStream:
    """A stream whose receiver is always ready, and whose frames are not written until they are released."""

    def __init__(self, granted_bytes: int) -> None:
        self.frames: SimpleQueue[Frame] = SimpleQueue()
        self.written = threading.Semaphore(0)
        self._granted_bytes = granted_bytes

    def next(self) -> Frame:
        return Frame(FrameKind.GRANT, 0, self._granted_bytes, 0, memoryview(b""))

    def put(self, frame: bytes) -> None:
        self.frames.put(decoded(frame))

    def flush(self) -> None:
        assert self.written.acquire(timeout=TIMEOUT_S)


def test_over_tls_too_it_waits_for_one_piece_at_most() -> None:
    size = 300_000
    streams = {channel.number: HeldStream(size) for channel in (SAMPLES, OUTPUT)}
    background, foreground = streams.values()
    transport: Any = TlsTransport.__new__(TlsTransport)
    gate = WatchedGate()
    transport._streams, transport._hub, transport._gate = streams, "b", gate
    message = torch.zeros(size, dtype=torch.uint8)
    with ThreadPoolExecutor() as pool:
        samples = pool.submit(transport.send, SAMPLES, message, background=True)
        first = background.frames.get(timeout=TIMEOUT_S)
        assert len(first.payload) == PIECE_BYTES
        output = pool.submit(transport.send, OUTPUT, message)
        assert sum(len(foreground.frames.get(timeout=TIMEOUT_S).payload) for _ in range(4)) == size - size % 4
        background.written.release()
        for _ in range(2):  # the first piece, and now the second, which has to wait
            assert gate.asked.acquire(timeout=TIMEOUT_S)
        assert background.frames.empty()
        foreground.written.release()
        output.result(TIMEOUT_S)
        background.written.release(99)
        samples.result(TIMEOUT_S)
    assert background.frames.qsize() == 4


def test_a_foreground_message_that_fails_no_longer_holds_others_up() -> None:
    gate = SendGate()
    with pytest.raises(OSError, match="torn"), gate.message(background=False):
        raise OSError("torn")
    with gate.message(background=True) as await_turn:
        await_turn()


def test_a_background_message_goes_on_if_the_foreground_one_does_not() -> None:
    """Its receiver may be waiting for the samples."""
    with worker(SendGate(patience_s=0.01)) as (network, send):
        gradient = send(GRADIENT, 9)
        stuck = network.next()
        samples = send(SAMPLES, 1)
        for size in (LENGTH_BYTES, 1):
            piece = network.next()
            assert (piece.channel, piece.size_bytes) == (SAMPLES.number, size)
            piece.released.set()
        samples.result(TIMEOUT_S)
        stuck.released.set()
        gradient.result(TIMEOUT_S)


def test_background_messages_do_not_wait_for_each_other() -> None:
    gate = SendGate()
    with gate.message(background=True) as one, gate.message(background=True) as other:
        one()
        other()


@pytest.mark.parametrize(("size", "many"), [(0, 0), (1, 1), (PIECE_BYTES, 1), (PIECE_BYTES + 1, 2)])
def test_pieces_are_the_message(size: int, many: int) -> None:
    message = torch.arange(size).to(torch.uint8)
    pieces = pieces_of(message)
    assert len(pieces) == many
    assert torch.cat((*pieces, torch.empty(0, dtype=torch.uint8))).equal(message)
