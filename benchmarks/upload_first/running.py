"""Cases for real on the paced testbed: ``auto`` and upload first, in turns."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.command import progress
from benchmarks.upload_first.rivals import step_s
from benchmarks.upload_first.worlds import World
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.measure.profiling import profile_network
from palmette.runtime.options import Options
from palmette.spec.plan import Plan, inputs_of
from palmette.zoo.models import load_network

MOST_WALL_S = 300.0
# A call is padded to its node's time, and this machine is given so much more than the call takes it alone.
SLACK = 2.0


def here_s(world: World) -> float:
    """Seconds of a step on this machine."""
    profile = profile_network(load_network(world.model), world.cluster, ["phone"])
    return step_s(evaluator(profile, world.cluster), "phone")


def expected_wall_s(plan: Plan, machine_s: float) -> float:
    """How long a run will take here, about: emulated time is slowed down until this machine keeps up."""
    prices = evaluator(*inputs_of(plan, None, None))
    nodes = {instance.node for phase in plan.phases for instance in phase.instances}
    assert plan.estimate is not None, "made for a number of epochs"
    assert plan.estimate.total_s is not None, "made for a number of epochs"
    return plan.estimate.total_s * max(slowdown(prices, node, machine_s) for node in nodes)


def slowdown(prices: Evaluator, node: str, machine_s: float) -> float:
    """By how much emulated time is stretched so that this machine keeps up with a node."""
    return max(1.0, SLACK * machine_s / step_s(prices, node))


def same_training(a: Plan, b: Plan) -> bool:
    """Whether two plans do the same."""
    return a.phases == b.phases


def run_in_turns(plans: dict[str, Plan], world: World, data: str, rounds: int) -> dict[str, Any]:
    """Train by each plan in turns; seconds of the whole on the emulated clock, and the median of each."""
    found: dict[str, list[float]] = {name: [] for name in plans}
    dilations: dict[str, list[float]] = {name: [] for name in plans}
    busy = [os.getloadavg()[0]]
    for _ in range(rounds):
        for name, plan in plans.items():
            time_s, dilation = run(plan, world.epochs, data)
            found[name].append(time_s)
            dilations[name].append(dilation)
            progress(f"  {name}: {time_s:.3f} s, dilation {dilation:.1f}")
    busy.append(os.getloadavg()[0])
    medians = {name: statistics.median(each) for name, each in found.items()}
    return {"seconds": medians, "all_seconds": found, "dilations": dilations, "load_average": busy}


def run(
    plan: Plan, epochs: int, data: str, *, testbed: str = "paced", dilation: float | None = None
) -> tuple[float, float]:
    """Train by a plan; seconds of the emulated clock, and the dilation."""
    options = Options(seed=1, lr=0.001)
    request = Request(data=data, epochs=epochs, testbed=testbed, dilation=dilation, replan=False, options=options)
    with tempfile.TemporaryDirectory() as folder:
        outcome = prepare(plan, *inputs_of(plan, None, None), request, Path(folder)).run(lambda _: None, lambda _: None)
    return outcome.time_s, outcome.dilation
