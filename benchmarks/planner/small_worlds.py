"""How often hybrid finds the best of every plan, on random worlds that are small enough to try all.

Up to 3 nodes, 4 layers and 6 samples; in some, data is private or always new, a CPU is limited, two nodes own data, or
up is not down. Each world is planned once: the search is the same for every goal, and each goal picks from it.
"""

from __future__ import annotations

import random
import time
from typing import Any

from benchmarks.command import progress
from benchmarks.planner.every_plan import BestPlans, most_parts_within
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.pricing import Objective
from palmette.plan.hybrid.problem import make_problem
from palmette.plan.hybrid.stages import HybridSearch
from palmette.spec.cluster import Cluster, Limits, Link, Node, Power, Source, Tier
from palmette.spec.goal import Quantity
from palmette.spec.profile import Layer, Profile, Times

GOALS: tuple[Quantity, ...] = ("time", "energy", "edp", "power")
TIERS: tuple[Tier, ...] = ("device", "edge", "cloud")
LEAST_PARTS, MOST_LISTS = 2, 3_000
EFFORT = 1.0


def found_share(seeds: range) -> dict[str, Any]:
    """The share of plannings in which no plan of the space is better than hybrid's, and those in which one is."""
    rows = {}
    for seed in seeds:
        rows[seed] = against_every_plan(random_task(seed))
        progress(f"world {seed}: {rows[seed]}")
    behind = {seed: row["behind"] for seed, row in rows.items() if row["behind"]}
    return {
        "worlds": len(rows),
        "plannings": len(rows) * len(GOALS),
        "plans_tried": sum(row["plans"] for row in rows.values()),
        "found_share": 1 - sum(map(len, behind.values())) / (len(rows) * len(GOALS)),
        "found_share_of_worlds": 1 - len(behind) / len(rows),
        "behind": behind,
    }


def against_every_plan(task: Task) -> dict[str, Any]:
    """The plans that were tried, and by what fraction the best of them is better than hybrid's, by goal."""
    began = time.process_time()
    search = HybridSearch(make_problem(task), seconds=None, effort=EFFORT)
    search.run()
    ours = {
        goal: found.cost.value(goal) for goal in GOALS if (found := search.best(Objective({goal: 1.0}))) is not None
    }
    searched_s = time.process_time() - began
    parts = most_parts_within(task, MOST_LISTS, LEAST_PARTS)
    best = BestPlans(task, parts, ours)
    return {
        "parts": parts,
        "plans": best.lists,
        "played": best.played,
        "search_cpu_s": round(searched_s, 2),
        "cpu_s": round(time.process_time() - began, 2),
        "behind": {goal: ours[goal] / best.values[goal] - 1 for goal in best.phases},
    }


def random_task(seed: int) -> Task:
    """A small world by a seed."""
    draw = random.Random(seed)
    nodes, layers, batch = draw.choice((2, 3, 3)), draw.randint(1, 4), draw.randint(2, 6)
    names = [f"n{k}" for k in range(nodes)]
    sources = draw.choice((1, 1, 2))
    private, stream = draw.random() < 0.2, draw.random() < 0.2
    cluster = Cluster(
        nodes={
            name: Node(
                tier=TIERS[k],
                power=_power(draw),
                source=Source(samples=draw.randint(20, 90), private=private, stream=stream) if k < sources else None,
                limits=Limits(cpu_share=draw.choice((1.0, 1.0, 0.5))),
            )
            for k, name in enumerate(names)
        },
        links=tuple(_link(draw, names[draw.randrange(k)], names[k]) for k in range(1, nodes)),
    )
    known = _profile(draw, names, layers)
    return Task(profile=known, cluster=cluster, batch=batch, epochs=draw.choice((1, 10, 50)), seed=seed)


def _power(draw: random.Random) -> Power:
    idle_w = draw.uniform(0.5, 5.0)
    return Power(idle_w=idle_w, busy_w=idle_w + draw.uniform(1.0, 20.0))


def _link(draw: random.Random, a: str, b: str) -> Link:
    bps = 10 ** draw.uniform(5.5, 8)
    rates = {"up_bps": bps, "down_bps": 4 * bps} if draw.random() < 0.3 else {"bandwidth_bps": bps}
    return Link(between=(a, b), **rates, latency_s=draw.choice((0.0, 0.002)), energy_j_per_bit=draw.choice((0.0, 9e-8)))


def _profile(draw: random.Random, names: list[str], layers: int) -> Profile:
    """Layers of 5 to 50 ms a sample on a node of speed 1, whose outputs take about as long to send."""
    sizes = tuple(
        Layer(name=f"layer{k}", parameter_bytes=10 ** draw.uniform(2.5, 5.5), output_bytes=10 ** draw.uniform(2.5, 5))
        for k in range(layers)
    )
    work = [draw.uniform(0.005, 0.05) for _ in range(layers)]
    return Profile(
        model="small",
        input_bytes=10 ** draw.uniform(2.5, 5),
        layers=sizes,
        nodes={name: _times(draw, work) for name in names},
    )


def _times(draw: random.Random, work: list[float]) -> Times:
    speed = draw.choice((1.0, 2.0, 8.0)) * draw.uniform(0.7, 1.4)
    forward = tuple(each * draw.uniform(0.8, 1.2) / speed for each in work)
    calls = tuple(draw.choice((0.0, 0.1)) * each for each in forward)
    return Times(
        forward_s=forward,
        backward_s=tuple(2 * each for each in forward),
        update_s=tuple(0.1 * each for each in forward),
        forward_call_s=calls,
        backward_call_s=calls,
    )
