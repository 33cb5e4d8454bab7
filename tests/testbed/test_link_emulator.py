"""The emulated links share their bandwidth as the event clock does, in both classes of traffic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from palmette.spec.link_trace import BandwidthTrace
from palmette.testbed.link_emulator import ChannelRoute, LinkClient, LinkEmulator, LinkTraces
from palmette.testbed.replay import Replay
from tests.durations import lasting

SAMPLES, GRADIENT = 0, 1
ROUTES = {
    SAMPLES: ChannelRoute((0,), 0.0, "a", "b", background=True),
    GRADIENT: ChannelRoute((0,), 0.5, "a", "b"),
}
BITS_PER_S = 8e5  # 100 bytes take a millisecond


@contextmanager
def sender(folder: Path) -> Iterator[tuple[LinkEmulator, LinkClient]]:
    """The emulated link from a to b, and what a is told of it."""
    links = LinkEmulator(ROUTES, [BITS_PER_S], ["a", "b"], folder)
    try:
        clients = [LinkClient(links.address, node) for node in ("a", "b")]
        yield links, clients[0]
    finally:
        links.close()


def test_samples_give_way_to_a_gradient_that_begins_later(tmp_path: Path) -> None:
    with sender(tmp_path) as (_, client):
        began_s = time.monotonic() + 0.5  # so that both are known before the first of them begins
        client.begin(SAMPLES, 10_000, began_s)
        client.begin(GRADIENT, 2_000, began_s + 0.03)
        arrived_s = dict(client.arrives() for _ in ROUTES)
    # The samples alone until 0.03 s, then the gradient until 0.05 s, then the other samples until 0.12 s.
    assert {channel: moment_s - began_s for channel, moment_s in arrived_s.items()} == pytest.approx(
        {SAMPLES: 0.12, GRADIENT: 0.05 + 0.5}, abs=1e-6
    )


def test_what_is_under_way_goes_on_when_time_is_stretched(tmp_path: Path) -> None:
    with sender(tmp_path) as (links, client):
        began_s = time.monotonic()
        client.begin(SAMPLES, 40_000, began_s)
        links.set_dilation(2.0)
        channel, arrived_s = client.arrives()
    assert channel == SAMPLES
    assert 0.4 <= arrived_s - began_s <= 0.8


@pytest.mark.timing
@pytest.mark.parametrize("dilation", [1.0, 2.0])
def test_a_trace_is_replayed_as_slowly_as_all_else(dilation: float, tmp_path: Path) -> None:
    # Half of the bytes in the first 0.1 s, none in the next, the rest afterwards.
    trace = BandwidthTrace(time_s=(0.0, 0.1, 0.2), down_bps=(1.0, 1.0, 1.0), up_bps=(BITS_PER_S, 0.0, BITS_PER_S))
    links = LinkEmulator(ROUTES, [1.0, 1.0], ["a", "b"], tmp_path, LinkTraces({0: trace}))
    try:
        client, _ = (LinkClient(links.address, node) for node in ("a", "b"))
        links.set_dilation(dilation)
        began_s = time.monotonic()
        client.begin(SAMPLES, 20_000, began_s)
        _, arrived_s = client.arrives()
    finally:
        links.close()
    assert arrived_s - began_s == lasting(0.3 * dilation)


def test_emulated_time_goes_on_when_it_is_stretched() -> None:
    trace = BandwidthTrace(time_s=(0.0, 10.0, 20.0), down_bps=(1.0, 2.0, 3.0))
    replay = Replay({4: trace}, moment_s=5.0)
    assert replay.rates_bps == {4: (1.0, 1.0)}
    assert replay.next_s == float("inf")
    replay.begin(100.0, 1.0)
    assert replay.next_s == 105.0
    replay.begin(102.0, 3.0)  # 2 s have passed, the other 3 take three times as long
    assert replay.next_s == 111.0
    assert replay.take() == (4, (2.0, 2.0))
    assert replay.next_s == 102.0 + (15.0 - 2.0) * 3
    assert replay.passed_s(105.0) == 3.0
