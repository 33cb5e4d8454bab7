"""Recomputation is taken where memory would forbid a plan, and nowhere else, and what it costs is the least."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import palmette as pt
from palmette.plan.core.delivery import fits
from palmette.plan.core.order import in_turns
from palmette.plan.core.recompute import RecomputeChoice, recompute_to_fit, without_recompute
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.pricing import Pricer
from palmette.plan.hybrid.problem import make_problem
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.random_trees import random_case, with_recompute
from tests.cost.small import cluster, link, node, profile, times


def flagged(phase: Phase, flags: tuple[bool, ...]) -> Phase:
    pairs = zip(phase.instances, flags, strict=True)
    instances = [each.model_copy(update={"recompute": flag}) for each, flag in pairs]
    return phase.model_copy(update={"instances": tuple(instances)})


def tight_case(seed: int) -> tuple[Phase, Task]:
    """A tree of a few instances that does not fit, on nodes with memory that some way to recompute may fit."""
    draw = random.Random(seed)
    for number in itertools.count(1000 * seed):
        phase, known, nodes = with_recompute(random_case(number), number)
        phase = without_recompute(phase)
        if len(phase.instances) > 6:
            continue
        task = Task(profile=known, cluster=nodes, batch=phase.batch)
        every = flagged(phase, (True,) * len(phase.instances))
        low, high = (task.evaluator.peak_bytes(each) for each in (every, phase))
        memory = {name: low[name] + draw.uniform(0, 1.2) * (high[name] - low[name]) for name in high}
        limited = {
            name: each.model_copy(update={"memory_bytes": memory[name]}) if name in memory else each
            for name, each in nodes.nodes.items()
        }
        task = Task(profile=known, cluster=nodes.model_copy(update={"nodes": limited}), batch=phase.batch)
        if not fits(phase, task):
            return phase, task
    raise AssertionError


def all_flags(phase: Phase, task: Task) -> list[Phase]:
    """The phase with any of the instances recomputing that are on nodes where it does not fit.

    Not those of other nodes: a call that takes longer may let another one go first, and so end an iteration earlier.
    """
    peaks, nodes = task.evaluator.peak_bytes(phase), task.cluster.nodes
    short = {name for name, peak in peaks.items() if peak > (nodes[name].memory_bytes or float("inf"))}
    choices = [(False, True) if each.node in short else (False,) for each in phase.instances]
    return [flagged(phase, flags) for flags in itertools.product(*choices)]


def time_s(phase: Phase, task: Task) -> float:
    return task.evaluator.price(phase).iteration_s


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_is_the_best_of_all_flags(seed: int) -> None:
    phase, task = tight_case(seed)
    allowed = [time_s(each, task) for each in all_flags(phase, task) if fits(each, task)]
    found = [each for each in RecomputeChoice(task).variants(phase) if fits(each, task)]
    assert bool(found) == bool(allowed)
    if allowed:
        assert min(time_s(each, task) for each in found) == pytest.approx(min(allowed), rel=1e-12)
        assert time_s(recompute_to_fit(phase, task), task) == pytest.approx(min(allowed), rel=1e-12)


def alone(memory_bytes: float, **more: Any) -> Cluster:
    return cluster(phone=node(64, power=(1.0, 3.0), memory_bytes=memory_bytes, **more))


def deep(*names: str, layers: int = 16) -> Profile:
    return profile([(10.0, 4.0, 8.0)] * layers, 4.0, **{name: times(layers) for name in names})


WEIGHTS = 2 * 160
KEPT = 16 * 8  # of a batch of one sample, which cannot go back in turns
AGAIN = 8 * 4 + 2 * 8  # the inputs of eight blocks, and the activations of one


@pytest.mark.parametrize("strategy", ["all-device", "upload", "hybrid"])
def test_it_is_taken_where_memory_asks_for_it_and_only_there(strategy: str) -> None:
    plans = {}
    for memory in (WEIGHTS + KEPT, WEIGHTS + KEPT - 1, WEIGHTS + AGAIN):
        plans[memory] = pt.plan(strategy, profile=deep("phone"), cluster=alone(float(memory)), batch=1)
    enough, less, least = plans.values()
    assert [each.recompute for each in enough.phases[0].instances] == [False]
    assert [each.recompute for each in least.phases[0].instances] == [True]
    assert least.estimate.iteration_s == pytest.approx(enough.estimate.iteration_s + 16)
    assert least.estimate.nodes["phone"].peak_memory_bytes == WEIGHTS + AGAIN
    assert least.decision["recompute"]["added_s"] == pytest.approx(16)
    assert least.decision["recompute"]["peak_bytes"] == {"phone": WEIGHTS + AGAIN}
    assert "recompute" not in enough.decision
    assert any(each.recompute for each in less.phases[0].instances)
    assert enough.estimate.iteration_s < less.estimate.iteration_s <= least.estimate.iteration_s
    if strategy in ("all-device", "upload"):
        assert less.decision["iteration_s"] == pytest.approx(less.estimate.iteration_s)


@pytest.mark.parametrize("strategy", ["all-device", "upload", "hybrid", "auto"])
def test_too_little_memory_for_either_is_one_line(strategy: str) -> None:
    with pytest.raises(pt.Infeasible) as refused:
        pt.plan(strategy, profile=deep("phone"), cluster=alone(WEIGHTS + AGAIN - 1.0), batch=1)
    assert "\n" not in str(refused.value)
    assert "does not fit the memory of phone" in str(refused.value)


def test_auto_says_what_it_saves_and_costs() -> None:
    plan = pt.plan("auto", profile=deep("phone"), cluster=alone(float(WEIGHTS + AGAIN)), batch=1)
    said = "Activations are recomputed where memory would not hold them (phone, 368 B instead of 448 B)"
    assert f"{said}; that adds 16 s and 48 J to an iteration." in plan.decision["why"]


def test_hybrid_recomputes_on_the_node_that_is_short_and_nowhere_else() -> None:
    # Private samples on a phone, and outputs that are too large to send before layer 8; 6.4 KB of activations up to it.
    layers = [(10.0, 400.0, 800.0)] * 7 + [(10.0, 4.0, 800.0)] + [(10.0, 4.0, 8.0)] * 8
    known = profile(layers, 4.0, phone=times(16), server=times(16, 0.5, 1.0))
    server = node(memory_bytes=100_000.0)
    for memory, recomputes in ((7_500.0, False), (3_750.0, True)):
        phone = node(64, private=True, memory_bytes=memory)
        nodes = cluster(link("phone", "server", 80.0), phone=phone, server=server)
        instances = pt.plan("hybrid", profile=known, cluster=nodes, batch=1, effort=0.2).phases[0].instances
        assert any(each.recompute for each in instances) == recomputes
        assert not any(each.recompute for each in instances if each.node == "server")


@pytest.mark.parametrize("seed", range(6))
def test_what_hybrid_prices_for_a_tree_is_the_best_of_all_flags(seed: int) -> None:
    phase, task = tight_case(100 + seed)
    _, cost = Pricer(make_problem(task, resend=True)).delivered(phase)
    turns = in_turns(phase)
    every = [*all_flags(phase, task), *([] if turns is None else [turns])]
    allowed = [time_s(each, task) for each in every if fits(each, task)]
    assert (None if cost is None else pytest.approx(cost.time_s)) == min(allowed, default=None)
