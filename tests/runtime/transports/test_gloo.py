"""Messages over gloo on loopback, with both nodes in this process."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Transport
from palmette.runtime.transports.gloo import FileEndpoint
from palmette.runtime.transports.lengths import BadLength
from palmette.runtime.transports.yielding import PIECE_BYTES

NODES = ("a", "b")
SAMPLES, OUTPUT, GRADIENT = Channel(0, "a", "b"), Channel(1, "a", "b"), Channel(2, "b", "a")
CHANNELS = (SAMPLES, OUTPUT, GRADIENT)
SIZES = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 10 * PIECE_BYTES + 3]
Pair = dict[str, Transport]


@pytest.fixture(params=["one connection", "a connection a channel"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two nodes that are connected."""
    own = CHANNELS if request.param == "a connection a channel" else ()
    endpoint = FileEndpoint(tmp_path / "store", NODES, channels=own)
    with ThreadPoolExecutor() as pool:
        yield dict(zip(NODES, pool.map(endpoint.connect, NODES), strict=True))


def random_bytes(size: int) -> Tensor:
    return torch.randint(0, 256, (size,), dtype=torch.uint8)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_message_of_unknown_size_arrives_as_it_was_sent(pair: Pair, size: int, background: bool) -> None:
    with ThreadPoolExecutor() as pool:
        for message in (random_bytes(size), random_bytes(5)):
            sending = pool.submit(pair["a"].send, SAMPLES, message, sized=False, background=background)
            assert pair["b"].receive(SAMPLES, None).equal(message)
            sending.result()


def test_messages_of_both_classes_and_directions_arrive_whole_and_in_order(pair: Pair) -> None:
    def carry(channel: Channel) -> None:
        background = channel is SAMPLES
        messages = [random_bytes(size) for size in (300_000, 0, 70_001, 9)]
        with ThreadPoolExecutor() as pool:
            pool.submit(
                lambda: [
                    pair[channel.sender].send(channel, message, sized=not background, background=background)
                    for message in messages
                ]
            )
            for message in messages:
                size = None if background else message.numel()
                assert pair[channel.receiver].receive(channel, size).equal(message)

    with ThreadPoolExecutor() as pool:
        list(pool.map(carry, CHANNELS))


@pytest.mark.parametrize("size", [-1, 2**40])
def test_a_length_that_no_message_has_is_refused(pair: Pair, size: int) -> None:
    length = torch.frombuffer(bytearray(struct.pack("<q", size)), dtype=torch.uint8)
    with ThreadPoolExecutor() as pool:
        pool.submit(pair["a"].send, SAMPLES, length)
        with pytest.raises(BadLength, match=f"node a announces a message of {size} bytes"):
            pair["b"].receive(SAMPLES, None)
