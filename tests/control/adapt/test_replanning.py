"""The same strategy, asked the same, plans for what is left."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.control.adapt.replanning import remaining, replan_without
from palmette.errors import NodeLost, RunError
from palmette.plan.core.make_plan import replan
from palmette.spec.files import validated
from palmette.spec.plan import Plan
from tests.plan.problems import LITTLE, node, profile, three_tiers


def gone(name: str) -> NodeLost:
    return NodeLost(f"node {name}: ended", name)


def made(strategy: str = "hiertrain", **more: object) -> Plan:
    """A plan that was written to a file and read again."""
    if strategy == "hybrid":
        more["effort"] = LITTLE
    plan = pt.plan(strategy, profile=profile(4), cluster=three_tiers(), batch=12, **more)  # type: ignore[arg-type]
    return validated(Plan, plan.model_dump(mode="json"))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["hiertrain", "hybrid", "jointdnn+", "all-device"])
def test_it_is_what_the_strategy_says_of_the_smaller_cluster(strategy: str) -> None:
    plan = made(strategy)
    again = replan_without(plan, gone("cloud"), allow_data_loss=False)
    smaller = remaining(three_tiers(), gone("cloud"))
    more = {"effort": LITTLE} if strategy == "hybrid" else {}
    fresh = pt.plan(strategy, profile=profile(4), cluster=smaller, batch=12, **more)
    assert (again.phases, again.decision, again.strategy) == (fresh.phases, fresh.decision, strategy)
    assert "cloud" not in again.phases[0].nodes()


def test_goal_and_options_are_those_that_were_asked() -> None:
    plan = made("hybrid", goal="0.3*time+0.7*energy", lossy=True, seed=5)
    assert plan.asked is not None
    assert plan.asked.options["lossy"] is True
    again = replan_without(plan, gone("server"), allow_data_loss=False)
    assert again.asked == plan.asked


def test_a_plan_of_an_earlier_version_is_made_again_without_integers() -> None:
    """It was asked with an option that is no more: what it forbade is now forbidden unless it is allowed."""
    plan = made("hybrid")
    assert plan.asked is not None
    asked = plan.asked.model_copy(update={"options": {"lossless": False, "seconds": 0.1}})
    again = replan_without(plan.model_copy(update={"asked": asked}), gone("server"), allow_data_loss=False)
    assert {instance.codec for instance in again.phases[0].instances} == {"none"}


def test_a_node_takes_its_links_and_its_places_in_sets_along() -> None:
    cluster = three_tiers().model_copy(update={"sets": {"fast": ("server", "cloud")}})
    smaller = remaining(cluster, gone("server"))
    assert list(smaller.nodes) == ["phone", "cloud"]
    assert smaller.links == ()
    assert smaller.sets == {"fast": ("cloud",)}


def test_a_cut_link_leaves_its_nodes() -> None:
    cut = NodeLost("silence", "cloud", (("server", "cloud"),))
    assert [link.between for link in remaining(three_tiers(), cut).links] == [("phone", "server")]
    assert list(remaining(three_tiers(), cut).nodes) == ["phone", "server", "cloud"]


@pytest.mark.parametrize(
    ("node", "pairs", "is_left"),
    [
        ("cloud", [("phone", "cloud")], ("phone", "server")),  # nothing else is known: the one at the lost node
        ("phone", [("cloud", "phone")], ("server", "cloud")),
        ("cloud", [("phone", "cloud"), ("server", "cloud")], ("phone", "server")),
        ("server", [("cloud", "server"), ("phone", "cloud")], ("phone", "server")),
        ("server", [("phone", "server"), ("cloud", "phone")], ("server", "cloud")),
    ],
)
def test_the_link_that_explains_most_is_the_one_that_was_cut(
    node: str, pairs: list[tuple[str, str]], is_left: tuple[str, str]
) -> None:
    (link,) = remaining(three_tiers(), NodeLost("silence", node, tuple(pairs))).links
    assert link.between == is_left


@pytest.mark.slow
def test_data_that_is_lost_ends_the_run_unless_that_is_allowed() -> None:
    cluster = three_tiers(server=node("edge", samples=500))
    plan = pt.plan("hybrid", profile=profile(4), cluster=cluster, batch=12, effort=LITTLE)
    with pytest.raises(RunError, match="allow_data_loss continues without it"):
        replan_without(plan, gone("phone"), allow_data_loss=False)
    again = replan_without(plan, gone("phone"), allow_data_loss=True)
    assert {source.node for source in again.phases[0].sources} == {"server"}


def test_secure_aggregation_goes_on_without_nobody() -> None:
    """The sums of a round with and without a client, who lost only its connection, would tell its weights."""
    cluster = three_tiers(server=node("edge", samples=500), cloud=node("cloud", samples=500))
    plan = pt.plan("federated", profile=profile(4), cluster=cluster, batch=12, secure_aggregation=True)
    with pytest.raises(RunError, match="the sum of a round without it would tell its weights"):
        replan_without(plan, gone("phone"), allow_data_loss=True)


def test_nobody_can_ask_a_person_again() -> None:
    plan = made().model_copy(update={"strategy": "manual"})
    with pytest.raises(RunError, match=r"^node cloud: ended$"):
        replan_without(plan, gone("cloud"), allow_data_loss=False)


def test_a_plan_that_does_not_say_what_was_asked_is_not_made_again() -> None:
    plan = made()
    with pytest.raises(pt.InputError, match=r"asked: missing: the plan does not record what hiertrain was asked"):
        replan(plan.model_copy(update={"asked": None}), three_tiers())


def test_where_no_plan_is_left_the_reason_is_told() -> None:
    with pytest.raises(RunError, match="no other plan is possible"):
        replan_without(made("all-cloud"), gone("cloud"), allow_data_loss=False)
