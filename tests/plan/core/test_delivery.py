"""How samples are delivered: never worse than any other way, and within what nodes hold."""

from __future__ import annotations

import pytest

from palmette.cost.check import forbidden, missing
from palmette.plan.core.delivery import with_delivery
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.pricing import Pricer
from palmette.plan.hybrid.problem import make_problem
from palmette.plan.hybrid.quick_bound import QuickBound
from palmette.plan.hybrid.stages import TIME
from palmette.plan.hybrid.starts import starts
from palmette.spec.cluster import Cluster, Source
from palmette.spec.plan import Phase
from tests.plan.deliveries import all_deliveries, mean_s, random_delivery_task
from tests.plan.problems import link, node, profile


def world(phone: Source | None = None, **cloud: float) -> Task:
    """A phone with 100 samples of 10 kB and a cloud."""
    nodes = {
        "phone": node("device").model_copy(update={"source": phone or Source(samples=100)}),
        "cloud": node("cloud", **cloud),
    }
    return Task(
        profile=profile(2, phone=40.0, cloud=1.0),
        cluster=Cluster(nodes=nodes, links=(link("phone", "cloud"),)),
        batch=10,
    )


def in_the_cloud(task: Task) -> tuple[str, bool]:
    phase = with_delivery(on_one_node("cloud", task), task)
    return phase.sources[0].delivery, phase.ahead


class TestOneSource:
    def test_samples_are_kept_and_sent_ahead(self) -> None:
        assert in_the_cloud(world()) == ("once", True)

    def test_a_stream_is_sent_each_time(self) -> None:
        assert in_the_cloud(world(Source(samples=100, stream=True))) == ("each", True)

    def test_what_does_not_fit_the_storage_is_sent_each_time(self) -> None:
        assert in_the_cloud(world(storage_bytes=1_002_399.0)) == ("each", True)
        assert in_the_cloud(world(storage_bytes=1_002_400.0)) == ("once", True)  # 24 bytes more for each

    def test_without_storage_samples_are_kept_in_memory(self) -> None:
        assert in_the_cloud(world(memory_bytes=1_000_000.0)) == ("each", True)
        assert in_the_cloud(world(memory_bytes=1_500_000.0)) == ("once", True)

    def test_where_nothing_travels_nothing_changes(self) -> None:
        task = world()
        phase = on_one_node("phone", task)
        assert with_delivery(phase, task) is phase

    def test_only_step_sends_ahead(self) -> None:
        task = world()
        apart = on_one_node("cloud", task).model_copy(update={"sync": "epoch"})
        phase = with_delivery(apart, task)
        assert (phase.sources[0].delivery, phase.ahead) == ("once", False)


def trees(task: Task, many: int) -> list[Phase]:
    """Trees of many kinds, none of which says how its samples are delivered."""
    problem = make_problem(task)
    pricer = Pricer(problem)
    return [pricer.phase(state) for state in starts(problem, {}, QuickBound(problem), [TIME])[:many]]


_LUCK = 1.05
"""Calls queue in the order in which they become ready; samples that come late may happen to make a better order."""


@pytest.mark.parametrize("seed", range(40))
def test_no_other_delivery_takes_less_time(seed: int) -> None:
    task = random_delivery_task(seed)
    for tree in trees(task, 12):
        if len(tree.sources) > 5:
            continue
        ways = [mean_s(each, task) for each in all_deliveries(tree, task)]
        chosen = with_delivery(tree, task)
        wrong = [*missing(chosen, task.evaluator), *forbidden(chosen, task.evaluator)]
        assert bool(wrong) == (not ways)
        assert not ways or mean_s(chosen, task) <= min(ways) * _LUCK, tree
