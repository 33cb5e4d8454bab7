"""Links whose transfers take other than foretold, found in the trace of a run."""

from __future__ import annotations

import pytest

from palmette.control.adapt.drift import LinkSpeeds
from palmette.control.adapt.link_history import with_measured_bandwidth
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


def observed(declared: Cluster, real: Cluster, passed: float = 1.0) -> Cluster:
    """The cluster as two iterations on real links show it, in which this fraction of the bytes passes."""
    speeds = LinkSpeeds(CHAIN, Evaluator(profile(4), declared))
    assert speeds() == []
    for iteration in range(2):
        for each in transfers(Evaluator(profile(4), real).price(CHAIN)):
            end_s = each.start_s + passed * (each.end_s - each.start_s)
            line = {"node": each.receiver, "instance": each.instance, "op": "receive", "iteration": iteration}
            speeds.hear([line | {"start_s": each.start_s, "end_s": end_s, "bytes": passed * each.size_bytes}])
    one, other = speeds()
    assert one == other
    return with_measured_bandwidth(declared, one.slower)


def with_speeds(first: float, second: float) -> Cluster:
    return three_tiers().model_copy(update={"links": (link("phone", "server", first), link("server", "cloud", second))})


@pytest.mark.parametrize(("first", "second"), [(8.0, 1.0), (2.0, 4.0), (8.0, 40.0), (1.0, 1.0), (8.0, 4.0), (6.0, 5.0)])
def test_what_links_reach_is_measured(first: float, second: float) -> None:
    found = observed(with_speeds(8.0, 4.0), with_speeds(first, second))
    rates = [bps for each in found.links for bps in each.rates_bps]
    assert rates == pytest.approx([first * 1e6, first * 1e6, second * 1e6, second * 1e6], rel=0.01)


def test_each_direction_is_measured_by_itself() -> None:
    def apart(up_mbps: float, down_mbps: float) -> Cluster:
        first = Link(between=("phone", "server"), up_bps=up_mbps * 1e6, down_bps=down_mbps * 1e6)
        return three_tiers().model_copy(update={"links": (first, link("server", "cloud", 4.0))})

    found = observed(apart(8.0, 2.0), apart(1.0, 2.0))
    assert found.links[0].rates_bps == pytest.approx((1e6, 2e6), rel=0.01)
    assert found.links[1].rates_bps == pytest.approx((4e6, 4e6), rel=0.01)


@pytest.mark.parametrize("passed", [0.0, 0.1])
def test_messages_shorter_than_foretold_say_nothing_of_the_link(passed: float) -> None:
    declared = with_speeds(8.0, 4.0)
    found = observed(declared, declared, passed)
    assert [each.rates_bps for each in found.links] == [pytest.approx(each.rates_bps) for each in declared.links]


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
    speeds = LinkSpeeds(TWO_AT_ONCE, prices)
    expected = transfers(prices.price(TWO_AT_ONCE))
    for number, each in enumerate(expected):
        first = in_turns and number == 0
        end_s = each.start_s + (1 if first else 2) * (each.end_s - each.start_s)
        line = {"node": each.receiver, "instance": each.instance, "op": "receive"}
        speeds.hear([line | {"iteration": 0, "start_s": each.start_s, "end_s": end_s, "bytes": each.size_bytes}])
    (found,) = speeds()
    assert with_measured_bandwidth(prices.cluster, found.slower).links[0].slower_bps == pytest.approx(4e6, rel=0.05)


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [([], 0), ([(1, 3)], 2), ([(1, 3), (2, 5)], 4), ([(4, 5), (1, 3)], 3), ([(1, 9), (2, 3), (8, 10)], 9)],
)
def test_what_intervals_cover(intervals: list[tuple[float, float]], seconds: float) -> None:
    assert covered_s(intervals) == seconds
