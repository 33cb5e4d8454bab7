"""Random problems for RightTrain: a few sources, nodes of three tiers, links with and without latency and energy."""

from __future__ import annotations

import random
from typing import Any

import palmette as pt
from palmette.plan.core.strategy import Task
from palmette.plan.righttrain.problem import RightTrainProblem, build_problem
from palmette.plan.righttrain.search import RightTrainSearch
from palmette.plan.righttrain.trees import ranked_trees
from palmette.spec.cluster import Cluster, Limits, Link, Node, Power, Source
from palmette.spec.goal import Goal
from palmette.spec.learning import Learning
from palmette.spec.plan import Plan
from palmette.spec.profile import Layer, Profile, Times

TIERS = {"device": (1.0, 1.5, 5.0), "edge": (6.0, 7.0, 25.0), "cloud": (40.0, 60.0, 250.0)}  # speed, idle, busy
LOSS = 0.3
BATCH = 32
CURVE = Learning(floor=0.05, scale=2.2, epoch_exponent=0.6, data_exponent=0.4, replica_exponent=0.05)


def random_problem(
    draw: random.Random, most: tuple[int, int, int] = (3, 5, 4), least_sources: int = 1
) -> tuple[Profile, Cluster, Learning]:
    """At most so many sources, nodes and layers."""
    sources = draw.randint(least_sources, most[0])
    many = draw.randint(max(2, sources), most[1])
    depth = draw.randint(2, most[2])
    tiers = ["device"] * sources + [draw.choice(list(TIERS)) for _ in range(many - sources)]
    nodes = {f"n{k}": _node(draw, tier, k < sources) for k, tier in enumerate(tiers)}
    links = [_link(draw, draw.randrange(k), k) for k in range(1, many)]
    joined = {frozenset(link.between) for link in links}
    for _ in range(draw.randint(0, 2)):
        link = _link(draw, *draw.sample(range(many), 2))
        if frozenset(link.between) not in joined:
            joined.add(frozenset(link.between))
            links.append(link)
    curve = Learning(
        floor=0.05,
        scale=2.2,
        epoch_exponent=draw.choice([0.5, 0.6, 0.8]),
        data_exponent=draw.choice([0.3, 0.7, 0.8]),
        replica_exponent=draw.choice([0.0, 0.05, 0.2]),
    )
    return _profile(draw, dict(zip(nodes, tiers, strict=True)), depth), Cluster(nodes=nodes, links=tuple(links)), curve


def _node(draw: random.Random, tier: str, owns: bool) -> Node:
    factor = draw.uniform(0.5, 2)
    _, idle, busy = TIERS[tier]
    return Node(
        tier=tier,
        power=Power(idle_w=idle * factor, busy_w=busy * factor, exponent=draw.choice([1.0, 1.0, 2.0, 3.0])),
        source=Source(samples=draw.randint(500, 5000), private=draw.random() < 0.3) if owns else None,
        limits=Limits(cpu_share=draw.choice([1.0, 1.0, 0.5])),
    )


def _link(draw: random.Random, a: int, b: int) -> Link:
    bps = draw.choice([2e6, 5e6, 20e6, 100e6]) * draw.uniform(0.5, 2)
    rates = {"up_bps": bps, "down_bps": 4 * bps} if (a + b) % 3 == 2 else {"bandwidth_bps": bps}
    return Link(
        between=(f"n{a}", f"n{b}"),
        **rates,
        latency_s=draw.choice([0.0, 0.002, 0.01]),
        energy_j_per_bit=draw.choice([0.0, 2e-8, 1e-7]),
    )


def _profile(draw: random.Random, tiers: dict[str, str], depth: int) -> Profile:
    seconds = [draw.uniform(0.5, 5) * 1e-3 for _ in range(depth)]
    layers = tuple(
        Layer(
            name=f"l{k}",
            parameter_bytes=draw.choice([1e3, 1e5, 1e6]),
            output_bytes=draw.choice([500.0, 4000.0, 20000.0]),
        )
        for k in range(depth)
    )
    times = {}
    for name, tier in tiers.items():
        each = [s / TIERS[tier][0] for s in seconds]
        times[name] = Times(
            forward_s=tuple(each),
            backward_s=tuple(2 * s for s in each),
            update_s=tuple(s / 20 for s in each),
            forward_call_s=(2e-4,) * depth,
        )
    return Profile(model="random", input_bytes=12288.0, layers=layers, nodes=times)


def task(profile: Profile, cluster: Cluster, deadline_s: float | None = None, **more: Any) -> Task:
    """The task of reaching ``LOSS`` by a deadline."""
    wanted = Goal(weights={"energy": 1.0}, deadline_s=deadline_s, loss=LOSS, **more)
    return Task(profile=profile, cluster=cluster, batch=BATCH, goal=wanted)


def problem_of(
    profile: Profile, cluster: Cluster, curve: Learning, deadline_s: float | None = None
) -> RightTrainProblem:
    """The problem of that task."""
    return build_problem(task(profile, cluster, deadline_s), curve)


def least_s(profile: Profile, cluster: Cluster, curve: Learning) -> float:
    """About the least time that the training can take."""
    known = problem_of(profile, cluster, curve)
    quick = RightTrainSearch(known, None).min_time_search().search(ranked_trees(known))
    assert quick is not None
    return quick.total_s


def planned(strategy: str, made_for: Task, curve: Learning, **options: Any) -> Plan:
    """A strategy's plan for a task; RightTrain's without asking others, which takes longer, unless told so."""
    if strategy == "righttrain":
        options.setdefault("alone", True)
    return pt.plan(
        strategy,
        profile=made_for.profile,
        cluster=made_for.cluster,
        batch=made_for.batch,
        goal=made_for.goal,
        learning=curve,
        **options,
    )
