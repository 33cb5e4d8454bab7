"""Plans for a cluster whose nodes reach one another through a relay, which computes nothing."""

from __future__ import annotations

from functools import partial

import pytest

import palmette as pt
from palmette.plan.core.registry import strategies
from palmette.spec.cluster import Cluster
from tests.plan.problems import LITTLE, link, node, profile

PLANNED = [name for name, kind in strategies().items() if kind.needs_profile and not kind.plans_epochs]


def star() -> Cluster:
    nodes = {"hub": node("edge", relay=True), "phone": node("device", samples=1000), "server": node("edge")}
    nodes["cloud"] = node("cloud")
    ways = (("phone", 8.0), ("server", 80.0), ("cloud", 16.0))
    return Cluster(nodes=nodes, links=tuple(link(name, "hub", mbps) for name, mbps in ways))


@pytest.mark.parametrize("strategy", PLANNED)
def test_no_strategy_computes_on_a_relay(strategy: str) -> None:
    known = profile(2, phone=8.0, server=2.0, cloud=1.0)
    effort = {"effort": LITTLE} if "effort" in getattr(strategies()[strategy], "__dataclass_fields__", {}) else {}
    plan = partial(pt.plan, strategy, profile=known, cluster=star(), batch=8, epochs=3)(**effort)
    assert all("hub" not in phase.nodes() for phase in plan.phases)


def test_a_message_takes_both_links() -> None:
    from palmette.cost.routes import Routes

    route = Routes(star()).between("phone", "cloud")
    assert route is not None
    assert (route.hops, route.bandwidth_bps) == (2, 8e6)


def test_a_relay_owns_nothing() -> None:
    with pytest.raises(ValueError, match="a relay only passes messages on"):
        node("edge", samples=3, relay=True)
