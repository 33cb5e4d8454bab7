"""Credit: a sender stays within it and never waits while it has some, and a receiver takes no more than it gave."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from palmette.runtime.program import Channel
from palmette.runtime.transports.heartbeat import ASLEEP_S, SILENCE_S
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.tls.credit import WINDOW_BYTES, ReceiveWindow
from palmette.runtime.transports.tls.frames import BadFrame, Frame, credit, data_frames, decoded, grant
from palmette.runtime.transports.tls.transport import TlsTransport
from palmette.runtime.transports.yielding import SendGate

SAMPLES = Channel(0, "phone", "cloud")


class NothingElse(Exception):
    """There are no more frames."""


class Scripted:
    """A stream on which these frames arrive, and that notes what is sent."""

    def __init__(self, *frames: bytes) -> None:
        self._frames = list(frames)
        self.sent: list[Frame] = []

    def next(self) -> Frame:
        if not self._frames:
            raise NothingElse
        return decoded(self._frames.pop(0))

    def put(self, frame: bytes) -> None:
        self.sent.append(decoded(frame))

    def flush(self) -> None: ...

    @property
    def sent_bytes(self) -> int:
        return sum(len(frame.payload) for frame in self.sent)


def over(stream: Scripted) -> Any:
    transport: Any = TlsTransport.__new__(TlsTransport)
    transport._streams, transport._hub, transport._gate = {SAMPLES.number: stream}, "cloud", SendGate()
    transport._credits, transport._windows = {}, {}
    transport._liveness = Liveness(SILENCE_S, ASLEEP_S)
    return transport


def zeros(size_bytes: int) -> torch.Tensor:
    return torch.zeros(size_bytes, dtype=torch.uint8)


def parts(*sizes: int) -> list[bytes]:
    return [part for size in sizes for part in data_frames(SAMPLES.number, memoryview(bytes(size)))]


def test_a_sender_with_credit_waits_for_nothing() -> None:
    transport = over(stream := Scripted(credit(SAMPLES.number, 1000)))
    for _ in range(10):
        transport.send(SAMPLES, zeros(100), sized=False, background=True)
    assert [frame.size for frame in stream.sent] == [100] * 10


@pytest.mark.parametrize("background", [False, True])
def test_a_sender_never_sends_more_than_its_credit(background: bool) -> None:
    transport = over(stream := Scripted(credit(SAMPLES.number, 200_000), credit(SAMPLES.number, 100_000)))
    with pytest.raises(NothingElse):
        transport.send(SAMPLES, zeros(1_000_000), sized=False, background=background)
    assert 0 < stream.sent_bytes <= 300_000


def test_a_message_without_bytes_needs_no_credit() -> None:
    transport = over(stream := Scripted())
    transport.send(SAMPLES, zeros(0), sized=False)
    assert [frame.size for frame in stream.sent] == [0]


def test_a_receiver_that_knows_the_size_gives_no_credit() -> None:
    with pytest.raises(BadFrame, match="node cloud sent a frame of kind grant; expected credit"):
        over(Scripted(grant(SAMPLES.number, 10))).send(SAMPLES, zeros(10), sized=False)
    with pytest.raises(BadFrame, match="node cloud expects 1000 bytes; the message has 10"):
        over(Scripted(credit(SAMPLES.number, 1000))).send(SAMPLES, zeros(10))


def test_small_messages_need_no_answer_each() -> None:
    transport = over(stream := Scripted(*parts(*[1000] * 100)))
    for _ in range(100):
        assert transport.receive(SAMPLES, None).numel() == 1000
    assert stream.sent == [decoded(credit(SAMPLES.number, WINDOW_BYTES))]


def test_credit_is_renewed_by_what_has_arrived() -> None:
    transport = over(stream := Scripted(*parts(*[100_000] * 100)))
    for number in range(1, 101):
        transport.receive(SAMPLES, None)
        under_way = sum(frame.size for frame in stream.sent) - 100_000 * number
        assert WINDOW_BYTES // 2 - 100_000 < under_way <= WINDOW_BYTES
    assert len(stream.sent) <= 2 * 10_000_000 // WINDOW_BYTES + 1


def test_a_receiver_refuses_more_than_it_allowed() -> None:
    window = ReceiveWindow(SAMPLES)
    assert window.renewal_bytes() == WINDOW_BYTES
    window.take(WINDOW_BYTES - 1)
    with pytest.raises(BadFrame, match="node phone sent 2 bytes where 1 more were allowed"):
        window.take(2)


def test_a_message_larger_than_the_window_arrives_as_credit_is_renewed() -> None:
    size = 5 * WINDOW_BYTES
    transport = over(stream := Scripted(*parts(size)))
    assert transport.receive(SAMPLES, None).numel() == size
    assert len(stream.sent) > 5
