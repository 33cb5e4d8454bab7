"""The testbed without privileges: transfers last as long as the links need for the bytes that pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from palmette.cost.steps import Kind
from palmette.runtime.phase_programs import parts_of
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Endpoint
from palmette.runtime.transports.gloo import FileEndpoint
from palmette.runtime.transports.memory import MemoryEndpoint, MemoryTransport
from palmette.testbed.link_emulator import ChannelRoute, LinkEmulator
from palmette.testbed.paced import PacedEndpoint, PacedTestbed, _channel_routes
from tests.durations import lasting
from tests.testbed.stand import Ends, Message, ahead, cluster, ends, evaluator, standing

PREDICTED_BYTES = 10 * 1000  # of a message, by the profile: ten samples
LATENCY_S = 0.05


@pytest.fixture(scope="module")
def pair() -> Iterator[Ends]:
    """Two nodes with a link whose directions share 200 kbit/s."""
    where = cluster(("a", "b", "200 kbit/s"), latency="50 ms", duplex="half")
    with ends(PacedTestbed(1.0), where, "a", "b") as made:
        yield made


@pytest.mark.timing
@pytest.mark.parametrize("size_bytes", [0, PREDICTED_BYTES // 5, PREDICTED_BYTES, 5 * PREDICTED_BYTES])
def test_a_transfer_takes_as_long_as_its_own_bytes_whatever_was_predicted(pair: Ends, size_bytes: int) -> None:
    taken_s = min(pair.transfer_s([pair.there], size_bytes)[0] for _ in range(2))
    assert taken_s == lasting(LATENCY_S + size_bytes * 8 / 200e3)


@pytest.mark.timing
def test_messages_share_a_link_by_the_bytes_that_they_have(pair: Ends) -> None:
    both_s = min(max(pair.transfer_s([pair.there, pair.back], 2500)) for _ in range(2))
    assert both_s == lasting(LATENCY_S + 2 * 2500 * 8 / 200e3)


@pytest.mark.timing
def test_samples_sent_ahead_follow_one_another_whatever_the_latency() -> None:
    wires = cluster(("a", "b", "4 Mbit/s"), latency="200 ms")
    with standing(PacedTestbed(1.0), wires, ahead("a", "a", "b")) as pair:
        samples = Message(pair.channel_of(Kind.DATA), 5_000, background=True)
        pair.arrivals_s([samples])
        (found_s,) = pair.arrivals_s([samples._replace(times=10)])
    assert found_s == lasting(0.2 + 10 * 0.01, sooner=0.1, most_s=1.5)  # 2.1 s one after the other


@pytest.mark.timing
def test_time_that_is_stretched_further_slows_links_down() -> None:
    with ends(PacedTestbed(), cluster(("a", "b", "200 kbit/s"), latency="20 ms"), "a", "b") as pair:
        assert pair._ground.increase_dilation(3.0) is not None
        taken_s = min(pair.transfer_s([pair.there], 1000)[0] for _ in range(2))
        assert pair._ground.dilation == 3.0
    assert taken_s == lasting(3 * (0.02 + 1000 * 8 / 200e3))


@pytest.mark.parametrize("is_ahead", [True, False])
def test_samples_that_are_sent_ahead_are_in_the_background_and_nothing_else(is_ahead: bool) -> None:
    known = evaluator(cluster(("a", "b", "1 Mbit/s")))
    phase = ahead("a", "a", "b").model_copy(update={"ahead": is_ahead})
    (part,) = parts_of(phase, known)
    kinds = {o.channel.number: o.what for program in part.programs.values() for o in program.operations if o.channel}
    routes = _channel_routes(part, known)
    assert {number: route.background for number, route in routes.items()} == {
        number: is_ahead and kind is Kind.DATA for number, kind in kinds.items()
    }
    assert Kind.DATA in kinds.values()


@pytest.mark.parametrize("over", ["gloo", "memory"])
@pytest.mark.parametrize("size_bytes", [0, 1, 200_000])
def test_a_message_of_unknown_size_takes_the_time_of_its_body_alone(tmp_path: Path, over: str, size_bytes: int) -> None:
    nodes, channel, latency_s = ("a", "b"), Channel(3, "a", "b"), 0.01
    links = LinkEmulator({3: ChannelRoute((0,), latency_s, *nodes, background=True)}, [16e6], nodes, tmp_path)
    inner: Endpoint = MemoryEndpoint(MemoryTransport()) if over == "memory" else FileEndpoint(tmp_path / "store", nodes)
    message = torch.randint(0, 256, (size_bytes,), dtype=torch.uint8)
    with ThreadPoolExecutor() as pool:
        a, b = pool.map(PacedEndpoint(inner, links.address).connect, nodes)
        for _ in range(2):
            due_s = time.monotonic()
            sending = pool.submit(a.send_due, channel, message, due_s, sized=False, background=True)
            arrival = b.receive_due(channel, None)
            assert arrival.message.equal(message)
            assert sending.result() == arrival.due_s
            assert arrival.due_s - due_s == pytest.approx(size_bytes * 8 / 16e6 + latency_s, abs=1e-6)
    links.close()
