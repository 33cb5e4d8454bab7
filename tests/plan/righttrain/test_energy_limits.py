"""Energy limits of nodes: smaller CPU shares meet them where power rises faster than its load."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import palmette as pt
from palmette.plan.righttrain.cpu_shares import optimal_shares
from palmette.plan.righttrain.geometric_program import CriticalPath, EnergyCap, GeometricProgram
from palmette.spec.cluster import Cluster, Limits, Power
from palmette.spec.goal import Goal
from palmette.spec.profile import Layer, Profile, Times
from tests.plan.problems import link, node, profile
from tests.plan.righttrain.problems import CURVE, LOSS

GRID = np.geomspace(0.01, 1.0, 400)


def least_on_grid(program: GeometricProgram, pairs: bool) -> float:
    """The least energy of one or two instances in a row within the limits of the program."""
    shares = np.array(np.meshgrid(GRID, GRID) if pairs else [GRID]).reshape(1 + pairs, -1)
    path = program.critical_path(np.ones(1 + pairs))
    time_s = path.fixed_s + (path.work_s[:, None] / shares).sum(axis=0)
    used_j = program.dynamic_j[:, None] * shares ** (program.exponent[:, None] - 1)
    allowed = time_s <= program.max_s
    for cap in program.caps:
        allowed &= cap.idle_w * time_s + used_j[cap.instances].sum(axis=0) <= cap.max_j
    energy_j = program.idle_w * time_s + used_j.sum(axis=0)
    return float(energy_j[allowed].min(initial=math.inf))


def random_program(draw: random.Random, pairs: bool) -> GeometricProgram:
    """One or two instances, each on a node of its own, the first of which may use little more than it has to."""
    many = 1 + pairs
    work_s = np.array([10 ** draw.uniform(-3, 1) for _ in range(many)])
    dynamic_j = work_s * [draw.uniform(1, 20) for _ in range(many)]
    exponent = np.array([draw.choice([1.0, 2.0, 3.0]) for _ in range(many)])
    idle_w, fixed_s = [draw.choice([0.1, 1.0, 5.0]) for _ in range(many)], draw.choice([0.0, 0.1])
    needed_j = (idle_w[0] * (fixed_s + work_s.sum() / GRID) + dynamic_j[0] * GRID ** (exponent[0] - 1)).min()
    return GeometricProgram(
        idle_w=sum(idle_w),
        dynamic_j=dynamic_j,
        exponent=exponent,
        nodes=[[k] for k in range(many)],
        limits=np.ones(many),
        critical_path=lambda _: CriticalPath(fixed_s, work_s),
        max_s=draw.choice([math.inf, 3 * (fixed_s + work_s.sum())]),
        caps=[EnergyCap(idle_w[0], [0], float(needed_j) * draw.choice([1.003, 1.02, 1.1, 1.3]))],
    )


@pytest.mark.parametrize("pairs", [False, True], ids=["one instance", "two"])
def test_shares_within_an_energy_limit_are_those_of_a_grid(pairs: bool) -> None:
    draw, met = random.Random(0), 0
    for case in range(100):
        program = random_program(draw, pairs)
        least_j = least_on_grid(program, pairs)
        if math.isfinite(least_j):
            shares = optimal_shares(program)
            assert shares is not None, case
            assert program.value_j(shares) <= least_j * 1.002, case
            met += 1
    assert met >= 50


def plan_within(strategy: str, limit_j: float | None) -> tuple[float, float]:
    """The joules of a plan, and those that its server uses, with so many for the server."""
    options = {"alone": True} if strategy == "righttrain" else {}
    server = node("edge", power=Power(idle_w=1.0, busy_w=12.0, exponent=2.0), limits=Limits(energy_j=limit_j))
    phone = node("device", samples=100, power=Power(idle_w=1.0, busy_w=6.0, exponent=2.0))
    cluster = Cluster(nodes={"phone": phone, "server": server}, links=(link("phone", "server", 100.0),))
    known, goal = profile(2, phone=3.0, server=1.0), Goal(weights={"energy": 1.0}, loss=LOSS)
    plan = pt.plan(strategy, profile=known, cluster=cluster, batch=4, goal=goal, learning=CURVE, **options)
    priced = pt.estimate(plan)
    used_j = priced.nodes["server"].energy_j
    assert used_j is not None
    return plan.decision["total_j"], used_j * priced.epoch_iterations * plan.decision["epochs"]


@pytest.mark.parametrize("strategy", ["righttrain", "righttrain-optimum"])
def test_a_limit_a_little_below_what_the_best_plan_uses(strategy: str) -> None:
    """The best shares without it are too large; it costs a little to stay below."""
    free_j, used_j = plan_within(strategy, None)
    limited_j, less_j = plan_within(strategy, 0.97 * used_j)
    assert less_j <= 0.97 * used_j
    assert free_j < limited_j < free_j * 1.02


def test_a_mapping_that_only_high_prices_of_energy_find() -> None:
    """The phone can neither do all nor send its samples: the last layer leaves it, at eight times the joules."""
    goal, curve = Goal(weights={"energy": 1.0}, loss=0.4), CURVE.model_copy(update={"scale": 1.2})
    layers = tuple(
        Layer(name=f"l{k}", parameter_bytes=size, output_bytes=out)
        for k, (size, out) in enumerate([(23600, 725), (1300, 148), (122, 37)])
    )
    fast, slow = (2.1e-3, 2.3e-3, 4.2e-3), (3.1e-3, 1.7e-3, 3.7e-3)
    known = Profile(
        model="tiny",
        input_bytes=3000,
        layers=layers,
        nodes={"phone": passes(fast, 0.0), "server": passes(slow, 4e-3)},
    )
    free_j = 0.0
    for part in (None, 0.8):
        limits = Limits(energy_j=None if part is None else part * free_j)
        phone = node("device", samples=11, power=Power(idle_w=0.1, busy_w=6.0, exponent=2.0), limits=limits)
        server = node("edge", power=Power(idle_w=1.0, busy_w=12.0))
        cluster = Cluster(nodes={"phone": phone, "server": server}, links=(link("phone", "server", 0.08, 0.01),))
        asked: dict[str, Any] = {"profile": known, "cluster": cluster, "batch": 4, "goal": goal, "learning": curve}
        found_j = pt.plan("righttrain", alone=True, **asked).decision["total_j"]
        free_j = free_j or found_j
    optimum = pt.plan("righttrain-optimum", **asked).decision
    assert set(optimum["mapping"].values()) == {"phone", "server"}
    assert found_j == pytest.approx(optimum["total_j"], rel=1e-4)
    assert found_j > 5 * free_j


def passes(forward_s: tuple[float, ...], call_s: float) -> Times:
    """Backward takes twice as long as forward."""
    return Times(
        forward_s=forward_s,
        backward_s=tuple(2 * each for each in forward_s),
        update_s=(5e-4,) * len(forward_s),
        forward_call_s=(call_s,) * len(forward_s),
        backward_call_s=(1.4 * call_s,) * len(forward_s),
    )


@pytest.mark.slow
def test_a_node_gives_a_little_away_that_no_price_makes_the_cheapest() -> None:
    """All on the phone exceeds its limit by 3%; a layer of one sample leaves it, which no other plan comes near."""
    layers = (
        Layer(name="l0", parameter_bytes=220, output_bytes=755),
        Layer(name="l1", parameter_bytes=223, output_bytes=3013),
    )
    nodes = {"phone": passes((8.9e-4, 6.1e-4), 0.0), "tablet": passes((7.6e-3, 4.9e-3), 0.0)}
    known = Profile(model="tiny", input_bytes=300, layers=layers, nodes=nodes)
    phone = node("device", samples=15, private=True, power=Power(idle_w=1.0, busy_w=12.0, exponent=2.0))
    tablet = node("device", samples=9, power=Power(idle_w=5.0, busy_w=30.0, exponent=2.0))
    curve = CURVE.model_copy(update={"scale": 1.2, "epoch_exponent": 1.0, "data_exponent": 0.9})
    goal = Goal(weights={"energy": 1.0}, loss=0.4)

    def least_j(strategy: str, limit_j: float | None = None) -> float:
        limited = phone.model_copy(update={"limits": Limits(energy_j=limit_j)})
        cluster = Cluster(nodes={"phone": limited, "tablet": tablet}, links=(link("phone", "tablet", 0.5),))
        options = {"alone": True} if strategy == "righttrain" else {}
        plan = pt.plan(strategy, profile=known, cluster=cluster, batch=4, goal=goal, learning=curve, **options)
        return plan.decision["total_j"]

    free_j = least_j("righttrain")
    found_j = least_j("righttrain", 0.97 * free_j)
    assert found_j == pytest.approx(least_j("righttrain-optimum", 0.97 * free_j), rel=1e-3)
    assert free_j < found_j < 10 * free_j
