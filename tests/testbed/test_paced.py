"""The testbed without privileges: transfers last as long as the links need for the bytes that pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from palmette.testbed.paced import PacedTestbed
from tests.testbed.stand import Ends, cluster, ends

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
    assert taken_s == pytest.approx(LATENCY_S + size_bytes * 8 / 200e3, abs=0.03)


@pytest.mark.timing
def test_messages_share_a_link_by_the_bytes_that_they_have(pair: Ends) -> None:
    both_s = min(max(pair.transfer_s([pair.there, pair.back], 2500)) for _ in range(2))
    assert both_s == pytest.approx(LATENCY_S + 2 * 2500 * 8 / 200e3, abs=0.03)


@pytest.mark.timing
def test_time_that_is_stretched_further_slows_links_down() -> None:
    with ends(PacedTestbed(), cluster(("a", "b", "200 kbit/s"), latency="20 ms"), "a", "b") as pair:
        assert pair._ground.increase_dilation(3.0) is not None
        taken_s = min(pair.transfer_s([pair.there], 1000)[0] for _ in range(2))
        assert pair._ground.dilation == 3.0
    assert taken_s == pytest.approx(3 * (0.02 + 1000 * 8 / 200e3), abs=0.03)
