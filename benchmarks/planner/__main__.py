"""How fast planners are, as JSON: ``python -m benchmarks.planner`` from the project's root."""

from __future__ import annotations

import statistics
import time
from typing import Any

import palmette as pt
from benchmarks.command import parser, print_result, progress
from benchmarks.evaluator.timing import yardstick_s
from benchmarks.planner import cases
from benchmarks.planner.small_worlds import found_share
from palmette.plan.core.comparison import mean_iteration
from palmette.plan.core.strategy import HORIZON_EPOCHS
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile

TURNS = 5
RIVALS = ("all-device", "all-edge", "all-cloud", "upload", "jointdnn", "jointdnn+", "jalad", "hiertrain")
World = tuple[Profile, Cluster]


def planned(strategy: str, world: World, batch: int = 128, **options: Any) -> Plan:
    profile, cluster = world
    return pt.plan(strategy, profile=profile, cluster=cluster, batch=batch, **options)


def hiertrain(quick: bool) -> dict[str, Any]:
    """The exact search against Algorithm 1, and large batches against small ones, in turns."""
    if quick:
        return {"10 layers": against_algorithm_1(cases.three_tiers(10), 1)}
    worlds = {"benchmarks.planner": cases.three_tiers(), "benchmarks.evaluator": cases.other_three_tiers()}
    return {name: against_algorithm_1(world, TURNS) for name, world in worlds.items()}


def against_algorithm_1(world: World, turns: int) -> dict[str, Any]:
    planned("hiertrain", world)  # whatever is done once is done
    ours: dict[int, list[float]] = {128: [], 4096: []}
    for _ in range(turns):
        for batch, seconds in ours.items():
            seconds.append(planned("hiertrain", world, batch).plan_s or 0.0)
    theirs = planned("hiertrain", world, method="lp")
    exact = planned("hiertrain", world)
    medians = {batch: statistics.median(seconds) for batch, seconds in ours.items()}
    return {
        "layers": len(world[0].layers),
        "algorithm_1_plan_s": round(theirs.plan_s or 0.0, 4),
        "exact_plan_s": {batch: round(each, 4) for batch, each in medians.items()},
        "times_faster_than_algorithm_1": round((theirs.plan_s or 0.0) / medians[128], 1),
        "batch_4096_over_128": round(medians[4096] / medians[128], 2),
        "algorithm_1_T_total_s": theirs.decision["iteration_s"],
        "exact_T_total_s": exact.decision["iteration_s"],
    }


def hybrid(world: World, batch: int = 128) -> dict[str, Any]:
    """Seconds of a planning, what it found, and what the rivals have; iterations in the mean over ten epochs."""
    rivals = {}
    for name in RIVALS:
        try:
            plan = planned(name, world, batch)
        except pt.PalmetteError:
            continue
        assert plan.estimate is not None
        rivals[name] = {"iteration_s": mean_iteration(plan.estimate, HORIZON_EPOCHS)[0], "plan_s": plan.plan_s}
    began = time.process_time()
    plan = planned("hybrid", world, batch)
    return {
        "nodes": len(world[1].nodes),
        "sources": len(world[1].sources()),
        "plan_s": round(plan.plan_s or 0.0, 3),
        "cpu_s": round(time.process_time() - began, 3),
        "iteration_s": plan.decision["value"],
        "lower_bound_s": plan.decision["lower_bound"],
        "gap": round(plan.decision["gap"], 4),
        "prices": plan.decision["prices"],
        "rivals": rivals,
    }


def gaps(quick: bool) -> dict[str, Any]:
    """How far hybrid's plans for three tiers are from its lower bound."""
    worlds = cases.three_tier_worlds()
    if quick:
        worlds = {name: world for name, world in worlds.items() if name.startswith("10 layers")}
    found = {}
    for name, (known, cluster, options) in worlds.items():
        began = time.process_time()
        plan = planned("hybrid", (known, cluster), **options)
        found[name] = {
            "gap": round(plan.decision["gap"], 4),
            "iteration_s": plan.decision["value"],
            "lower_bound_s": plan.decision["lower_bound"],
            "plan_s": round(plan.plan_s or 0.0, 2),
            "cpu_s": round(time.process_time() - began, 2),
        }
        progress(f"{name}: {found[name]}")
    values = [each["gap"] for each in found.values()]
    return {"median": statistics.median(values), "worst": max(values), "worlds": found}


def main() -> None:
    """Print all figures."""
    made = parser(__doc__, "HierTrain with 10 layers, hybrid on 3 nodes only, gaps with 10 layers, 2 small worlds")
    made.add_argument("--small-worlds", type=int, metavar="N", help="only hybrid against every plan, on N small worlds")
    made.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of these worlds (0)")
    made.add_argument("--gaps", action="store_true", help="only how far hybrid is from its bound on three tiers")
    asked = made.parse_args()
    if asked.gaps:
        print_result({"gaps": gaps(asked.quick)})
        return
    if asked.small_worlds:
        print_result(found_share(range(asked.first, asked.first + asked.small_worlds)))
        return
    quick = asked.quick
    worlds = {"3 nodes": (cases.three_tiers(), 128)}
    if not quick:
        worlds |= {"50 nodes, 1 source": (cases.fleet(1), 128), "50 nodes, 40 sources": (cases.fleet(40), 128)}
        worlds |= {"200 nodes, 100 sources": (cases.fleet(100, devices=166, edges=32), 256)}
    result = {
        "hiertrain": hiertrain(quick),
        "hybrid": {name: hybrid(*world) for name, world in worlds.items()},
        "gaps": gaps(quick),
        **({"small_worlds": found_share(range(1, 3))} if quick else {}),
        "yardstick_ns": round(yardstick_s() * 1e9, 1),
    }
    print_result(result)


if __name__ == "__main__":
    main()
