"""Random delays: their mean, and the same again for the same channel."""

from __future__ import annotations

import statistics

import pytest

from palmette.testbed.jitter import Jitter


def test_delays_have_the_means_of_their_links() -> None:
    """They are told beside the mean, which is part of the latency, and never take a message back in time."""
    jitter = Jitter((0.01, 0.03), seed=7)
    delays = [jitter.next_s() for _ in range(20_000)]
    assert statistics.fmean(delays) == pytest.approx(0.0, abs=1e-3)
    assert min(delays) >= -0.04
    assert statistics.stdev(delays) == pytest.approx((0.01**2 + 0.03**2) ** 0.5, rel=0.05)


def test_a_channel_has_the_same_delays_in_every_run() -> None:
    one, again, other = Jitter((0.01,), 3), Jitter((0.01,), 3), Jitter((0.01,), 4)
    delays = [one.next_s() for _ in range(5)]
    assert delays == [again.next_s() for _ in range(5)] != [other.next_s() for _ in range(5)]


def test_a_link_without_jitter_has_none() -> None:
    assert Jitter((), 1).next_s() == 0
