"""Nodes and links that are equal: asked about once, told in one sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

import palmette as pt
from palmette.plan.auto.explanation import Findings, explain
from palmette.plan.auto.nodes import (
    PlanWithout,
    needed_for_their_data,
    nodes_to_try,
    of_computing_nodes,
    plan_without,
)
from palmette.plan.auto.objective import plan_objective
from palmette.plan.auto.symmetry import equal_links, equal_nodes
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Plan
from tests.plan import fleets
from tests.plan.problems import goal, profile, three_tiers


def task(private: bool) -> Task:
    known, cluster = fleets.fleet(private=private)
    return Task(profile=known, cluster=cluster, batch=fleets.BATCH)


def everyone(asked: Task) -> Plan:
    """A plan in which all phones train at home."""
    ground = {"profile": asked.profile, "cluster": asked.cluster, "batch": asked.batch}
    return pt.plan("hybrid", **ground, effort=0.01)


def test_phones_behind_the_same_server_are_equal_and_others_are_not() -> None:
    groups = equal_nodes(task(private=True), task(private=True).cluster.nodes)
    assert sorted(map(len, groups)) == [1, 1, 1, 1, 6, 7, 7]
    assert sorted(map(len, equal_links(task(private=True), range(25)))) == [1, 1, 1, 1, 1, 6, 7, 7]


def test_names_and_own_data_make_no_difference() -> None:
    asked = task(private=False)
    nodes = dict(asked.cluster.nodes)
    source = nodes["phone0"].source
    assert source is not None
    nodes["phone0"] = nodes["phone0"].model_copy(update={"source": source.model_copy(update={"data": "digits"})})
    renamed = replace(asked, cluster=asked.cluster.model_copy(update={"nodes": nodes}))
    assert len(equal_nodes(renamed, nodes)) == len(equal_nodes(asked, nodes))


def test_equal_phones_are_asked_about_once_and_private_ones_never() -> None:
    assert [len(group) for group in nodes_to_try(task(private=True))] == [1, 1, 1, 1]
    assert sorted(len(group) for group in nodes_to_try(task(private=False)))[-2:] == [7, 7]


def test_twenty_private_phones_are_one_sentence() -> None:
    asked = task(private=True)
    needed = needed_for_their_data(asked)
    assert needed is not None
    plan = everyone(asked)
    told = of_computing_nodes([needed], plan)
    objective = plan_objective(asked, [plan], {})
    why = explain(plan, [plan], objective, Findings([], told, [], {}))
    assert "20 nodes (phone0, phone1, …) cannot be spared: their data is private." in why
    assert why.count("cannot be spared") == 1
    assert len(told[0].as_json(plan, objective)["alike"]) == 19


def test_what_one_of_several_equal_nodes_saves_is_one_sentence() -> None:
    asked = task(private=True)
    plan = everyone(asked)
    slower = plan.model_copy(update={"estimate": plan.estimate.model_copy(update={"iteration_s": 9.0})})
    told = of_computing_nodes([PlanWithout(("phone0", "phone3", "phone6"), slower, None)], plan)
    objective = plan_objective(asked, [plan], {})
    why = explain(plan, [plan], objective, Findings([], told, [], {}))
    assert "Any one of 3 equal nodes (phone0, phone3, …) saves 9" in why


def test_a_node_without_which_nothing_changes_makes_no_difference() -> None:
    asked = task(private=True)
    plan = everyone(asked)
    told = of_computing_nodes([PlanWithout(("phone0",), plan, None)], plan)
    objective = plan_objective(asked, [plan], {})
    assert "phone0 makes no difference." in explain(plan, [plan], objective, Findings([], told, [], {})).lower()
    assert told[0].as_json(plan, objective) == {"node": "phone0", "needed": False, "saves_s": 0.0, "saves_j": 0.0}


@pytest.mark.parametrize(("text", "quantity"), [("edp", " energy × time."), ("0.5*time+0.5*energy", " in this sum.")])
def test_the_next_one_is_behind_by_so_much_of_what_is_minimised(text: str, quantity: str) -> None:
    asked = Task(profile=profile(4), cluster=three_tiers(), batch=16, goal=goal(text))
    known = {"profile": asked.profile, "cluster": asked.cluster, "batch": asked.batch}
    first, second = (pt.plan(name, **known) for name in ("all-cloud", "all-edge"))
    objective = plan_objective(asked, [first, second], {"effort": 0.01})
    first, second = sorted((first, second), key=objective.of)
    assert f"{second.strategy} needs " in (why := explain(first, [first, second], objective, Findings([], [], [], {})))
    assert quantity in why


def test_without_a_node_that_a_deadline_needs_there_is_no_plan_and_a_reason() -> None:
    asked = Task(profile=profile(4), cluster=three_tiers(), batch=16)
    known = {"profile": asked.profile, "cluster": asked.cluster, "batch": asked.batch}
    plan = pt.plan("all-cloud", **known)
    assert plan.estimate is not None
    tight = replace(asked, goal=goal("time", iteration_deadline_s=plan.estimate.iteration_s))
    objective = plan_objective(tight, [plan], {})
    found = plan_without(("cloud",), ["all-cloud", "all-device"], objective, {})
    assert found.plan is None
    assert found.as_json(plan, objective)["why"].startswith("iteration_deadline_s: ")


def test_where_one_node_can_compute_none_is_left_out() -> None:
    assert nodes_to_try(Task(profile=profile(4, phone=1.0), cluster=three_tiers(), batch=16)) == []


def test_of_nodes_that_do_not_compute_nothing_is_told() -> None:
    plan = pt.plan("all-cloud", profile=profile(), cluster=three_tiers(), batch=8)
    assert of_computing_nodes([PlanWithout(("phone",), None, "why")], plan) == []


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_auto_plans_for_a_fleet_and_says_how_far_it_may_be_from_the_best() -> None:
    asked = task(private=True)
    made = pt.plan("auto", profile=asked.profile, cluster=asked.cluster, batch=asked.batch, seconds=8.0)
    assert made.decision["why"].count("cannot be spared") == 1
    assert 0 < made.decision["lower_bound"] <= made.decision["value"]
    assert made.decision["gap"] == pytest.approx(1 - made.decision["lower_bound"] / made.decision["value"])
    assert made.plan_s is not None
    assert made.plan_s < 30
