"""What-if: each variant is what one gets by planning and pricing for the changed cluster by hand."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.control.what_if import AS_IT_IS
from palmette.errors import InputError, PalmetteError
from palmette.spec.estimate import Estimate
from palmette.spec.link import Link
from palmette.spec.link_trace import BandwidthTrace
from palmette.spec.plan import Plan
from tests.plan.problems import link, node, profile, three_tiers


@pytest.fixture(scope="module")
def split() -> Plan:
    return pt.plan("upload", profile=profile(4), cluster=three_tiers(), batch=16, epochs=3)


def test_a_link_is_priced_kept_and_planned_again(split: Plan) -> None:
    same, faster = pt.what_if(split, links={"cloud-server": "400 Mbit/s"})
    assert (same.name, faster.name) == (AS_IT_IS, "cloud-server at 400 Mbit/s")
    assert same.kept == split.estimate
    changed = three_tiers().model_copy(update={"links": (link("phone", "server"), link("server", "cloud", 400.0))})
    assert faster.kept == pt.estimate(split, cluster=changed, epochs=3)
    by_hand = pt.plan("upload", profile=profile(4), cluster=changed, batch=16, epochs=3)
    assert isinstance(faster.planned, Plan)
    assert (faster.planned.phases, faster.planned.estimate) == (by_hand.phases, by_hand.estimate)


def test_a_link_that_varies_may_have_a_bandwidth_there_and_another_back(split: Plan) -> None:
    trace = BandwidthTrace(time_s=(0.0, 1.0), down_bps=(8e6, 0.0))
    varying = Link(between=("phone", "server"), bandwidth_trace=trace)
    cluster = three_tiers().model_copy(update={"links": (varying, link("server", "cloud", 4.0))})
    *_, there_and_back = pt.what_if(split, cluster=cluster, links={"server-phone": "2 Mbit/s, 1 Mbit/s"})
    either = Link(between=("phone", "server"), up_bps=1e6, down_bps=2e6)
    changed = three_tiers().model_copy(update={"links": (either, link("server", "cloud", 4.0))})
    assert there_and_back.name == "server-phone at 2 Mbit/s, back at 1 Mbit/s"
    assert there_and_back.kept == pt.estimate(split, cluster=changed, epochs=3)


def test_changes_are_tried_alone_and_together(split: Plan) -> None:
    found = pt.what_if(split, links={"phone-server": "80 Mbit/s"}, without=["cloud"], epochs=50)
    names = ["phone-server at 80 Mbit/s", "without cloud", "50 epochs"]
    assert [each.name for each in found] == [AS_IT_IS, *names, " and ".join(names)]
    longer, last = found[3].kept, found[-1].planned
    assert isinstance(longer, Estimate)
    assert longer.epochs == 50
    assert isinstance(last, Plan)
    assert last.estimate is not None
    assert last.estimate.epochs == 50
    assert all(instance.node != "cloud" for instance in last.phases[0].instances)


def test_a_plan_on_a_node_that_is_not_there_says_so() -> None:
    on_cloud = pt.plan("all-cloud", profile=profile(4), cluster=three_tiers(), batch=16)
    _, without = pt.what_if(on_cloud, without=["cloud"])
    assert isinstance(without.kept, PalmetteError)
    assert isinstance(without.planned, PalmetteError)
    assert "cloud" in without.as_json()["kept"]["impossible"]


def test_a_plan_that_a_person_wrote_is_priced_only(split: Plan) -> None:
    written = split.model_copy(update={"asked": None, "strategy": "manual"})
    same, other = pt.what_if(written, links={"phone-server": "1 Mbit/s"})
    assert isinstance(other.kept, Estimate)
    assert isinstance(other.planned, InputError)
    assert isinstance(same.kept, Estimate)
    assert other.kept.iteration_s >= same.kept.iteration_s


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"links": {"phone-sever": "1 Mbit/s"}}, "no such link; did you mean phone-server"),
        ({"links": {"phone-server": "fast"}}, "phone-server=fast: expected a bandwidth with a unit"),
        ({"links": {"phone-server": "0 Mbit/s"}}, "phone-server=0 Mbit/s: expected a bandwidth with a unit"),
        ({"without": ["clod"]}, "no such node; did you mean cloud"),
        ({"epochs": 0}, "expected at least 1"),
    ],
)
def test_a_change_that_names_nothing_is_refused(split: Plan, changes: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        pt.what_if(split, **changes)


def test_the_only_node_has_to_stay() -> None:
    alone = three_tiers().model_copy(update={"nodes": {"phone": node("device", samples=100)}, "links": ()})
    made = pt.plan("all-device", profile=profile(2), cluster=alone, batch=8)
    _, without = pt.what_if(made, without=["phone"])
    assert "no node is left" in str(without.kept)
