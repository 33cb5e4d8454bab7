"""Links whose transfers take other than foretold, found in the trace of a run."""

from __future__ import annotations

import pytest

from palmette.control.adapt.drift import WINDOW, LinkSpeeds
from palmette.cost.estimate import transfers
from palmette.cost.evaluate import Evaluator
from palmette.runtime.record.activity import covered_s
from palmette.spec.cluster import Cluster, Link
from tests.cost.small import instance, phase, source
from tests.plan.problems import link, profile, three_tiers

CHAIN = phase(
    source("phone", 400, "1"),
    instance("1", 1, 1, "phone", "2"),
    instance("2", 2, 3, "server", "3"),
    instance("3", 4, 4, "cloud"),
)


class Trace:
    """The trace of a run on a cluster whose links are not those that were declared."""

    def __init__(self, declared: Cluster) -> None:
        self._iteration = 0
        self.speeds = LinkSpeeds(CHAIN, Evaluator(profile(4), declared), 0.5)
        assert self.speeds() is None

    def write(self, real: Cluster, many: int, passed: float = 1.0) -> None:
        """What happens in some iterations, in which this fraction of the bytes passes."""
        found = transfers(Evaluator(profile(4), real).price(CHAIN))
        for _ in range(many):
            self._iteration += 1
            for each in found:
                line = {"node": each.receiver, "instance": each.instance, "op": "receive"}
                end_s = each.start_s + passed * (each.end_s - each.start_s)
                when = {"iteration": self._iteration, "start_s": each.start_s, "end_s": end_s}
                self.speeds.hear([line | when | {"bytes": passed * each.size_bytes}])

    def finish(self) -> None:
        self.speeds.hear([{"iteration": self._iteration + 1, "op": "forward"}])


def with_speeds(first: float, second: float) -> Cluster:
    return three_tiers().model_copy(update={"links": (link("phone", "server", first), link("server", "cloud", second))})


@pytest.mark.parametrize(("first", "second"), [(8.0, 1.0), (2.0, 4.0), (8.0, 40.0), (1.0, 1.0)])
def test_what_has_drifted_is_measured(first: float, second: float) -> None:
    trace = Trace(with_speeds(8.0, 4.0))
    trace.write(with_speeds(first, second), WINDOW)
    trace.finish()
    found = trace.speeds()
    assert found is not None
    rates = [bps for each in found.links for bps in each.rates_bps]
    assert rates == pytest.approx([first * 1e6, first * 1e6, second * 1e6, second * 1e6], rel=0.01)


def test_each_direction_is_measured_by_itself() -> None:
    def apart(up_mbps: float, down_mbps: float) -> Cluster:
        first = Link(between=("phone", "server"), up_bps=up_mbps * 1e6, down_bps=down_mbps * 1e6)
        return three_tiers().model_copy(update={"links": (first, link("server", "cloud", 4.0))})

    trace = Trace(apart(8.0, 2.0))
    trace.write(apart(1.0, 2.0), WINDOW)
    trace.finish()
    found = trace.speeds()
    assert found is not None
    assert found.links[0].rates_bps == pytest.approx((1e6, 2e6), rel=0.01)
    assert found.links[1].rates_bps == pytest.approx((4e6, 4e6), rel=0.01)


@pytest.mark.parametrize(("first", "second"), [(8.0, 4.0), (6.0, 5.0)])
def test_a_little_is_no_drift(first: float, second: float) -> None:
    trace = Trace(with_speeds(8.0, 4.0))
    trace.write(with_speeds(first, second), 3 * WINDOW)
    trace.finish()
    assert trace.speeds() is None


@pytest.mark.parametrize("passed", [0.0, 0.1])
def test_messages_shorter_than_foretold_are_no_drift(passed: float) -> None:
    trace = Trace(with_speeds(8.0, 4.0))
    trace.write(with_speeds(8.0, 4.0), WINDOW, passed)
    trace.finish()
    assert trace.speeds() is None


def test_one_slow_iteration_is_no_drift() -> None:
    trace = Trace(with_speeds(8.0, 4.0))
    trace.write(with_speeds(1.0, 1.0), 2)
    trace.finish()
    assert trace.speeds() is None
    trace.write(with_speeds(8.0, 4.0), WINDOW)
    trace.finish()
    assert trace.speeds() is None


TWO_AT_ONCE = phase(
    source("phone", 200, "here"),
    source("phone", 200, "there"),
    instance("here", 1, 4, "server"),
    instance("there", 1, 4, "cloud"),
)


@pytest.mark.parametrize("in_turns", [False, True])
def test_how_transfers_share_a_link_is_no_matter(in_turns: bool) -> None:
    """Over one connection the first may be through before the second moves; the link is half as fast all the same."""
    prices = Evaluator(profile(4), with_speeds(8.0, 80.0))
    speeds = LinkSpeeds(TWO_AT_ONCE, prices, 0.5)
    assert speeds() is None
    expected = transfers(prices.price(TWO_AT_ONCE))
    for iteration in range(WINDOW + 1):
        for number, each in enumerate(expected):
            first = in_turns and number == 0
            end_s = each.start_s + (1 if first else 2) * (each.end_s - each.start_s)
            line = {"node": each.receiver, "instance": each.instance, "op": "receive"}
            when = {"iteration": iteration, "start_s": each.start_s, "end_s": end_s}
            speeds.hear([line | when | {"bytes": each.size_bytes}])
    found = speeds()
    assert found is not None
    assert found.links[0].slower_bps == pytest.approx(4e6, rel=0.05)


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [([], 0), ([(1, 3)], 2), ([(1, 3), (2, 5)], 4), ([(4, 5), (1, 3)], 3), ([(1, 9), (2, 3), (8, 10)], 9)],
)
def test_what_intervals_cover(intervals: list[tuple[float, float]], seconds: float) -> None:
    assert covered_s(intervals) == seconds
