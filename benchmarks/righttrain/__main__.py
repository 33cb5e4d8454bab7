"""RightTrain against its optimum, and how its cost grows, as JSON: ``python -m benchmarks.righttrain``."""

from __future__ import annotations

import json
import math
import random
import resource
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import palmette as pt
from benchmarks.command import parser, print_result
from benchmarks.evaluator.timing import yardstick_s
from benchmarks.righttrain.cases import CURVE, fleet
from palmette.spec.goal import Goal
from palmette.spec.plan import Plan
from tests.plan.righttrain.problems import least_s, planned, random_problem, task

SIZES = ((10, 5, 20), (20, 10, 20), (40, 20, 20), (100, 50, 20))
QUICK_SIZES, QUICK_SCENARIOS = ((5, 2, 6), (10, 5, 6)), 2
LOOSE = (1.02, 1.3, 2.5, None)


def against_optimum(seeds: range) -> list[dict[str, Any]]:
    """Energy over the optimum's, on random worlds of at most 3 sources, 5 nodes and 4 layers, a row each."""
    rows = []
    for seed in seeds:
        draw = random.Random(seed)
        profile, cluster, curve = random_problem(draw)
        loose = LOOSE[seed % len(LOOSE)]
        wanted = task(profile, cluster, None if loose is None else loose * least_s(profile, cluster, curve))
        plans = {}
        for name in ("righttrain", "righttrain-optimum"):
            try:
                plans[name] = planned(name, wanted, curve)
            except pt.PalmetteError as error:
                plans[name] = error
        rows.append(_row(seed, plans["righttrain"], plans["righttrain-optimum"]))
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many are how close, and how long planning took."""
    known = [row for row in rows if "excess" in row]
    excess = [row["excess"] for row in known]
    return {
        "scenarios": len(rows),
        "both_planned": len(known),
        "within_1_percent": sum(each <= 0.01 for each in excess) / len(excess),
        "within_5_percent": sum(each <= 0.05 for each in excess) / len(excess),
        "worst_excess": max(excess),
        "optimum_s_median": statistics.median(row["optimum_s"] for row in known),
        "optimum_s_most": max(row["optimum_s"] for row in known),
        "righttrain_s_median": statistics.median(row["righttrain_s"] for row in known),
        "righttrain_s_most": max(row["righttrain_s"] for row in known),
        "gap_median": statistics.median(row["gap"] for row in known),
        "gap_most": max(row["gap"] for row in known),
        "optimum_gap_most": max(row["optimum_gap"] for row in known),
        "optimum_gap_zero": sum(row["optimum_gap"] < 3e-6 for row in known),
        "others": [row for row in rows if "excess" not in row],
        "above_1_percent": [row for row in known if row["excess"] > 0.01],
    }


def _row(seed: int, ours: Any, optimum: Any) -> dict[str, Any]:
    if not (isinstance(ours, Plan) and isinstance(optimum, Plan)):
        told = [str(each)[:160] if isinstance(each, Exception) else "planned" for each in (ours, optimum)]
        return {"seed": seed, "righttrain": told[0], "optimum": told[1]}
    return {
        "seed": seed,
        "excess": ours.decision["total_j"] / optimum.decision["total_j"] - 1,
        "righttrain_s": ours.plan_s,
        "optimum_s": optimum.plan_s,
        "gap": ours.decision["gap"],
        "optimum_gap": optimum.decision["gap"],
        "instances": len(optimum.phases[0].instances),
    }


def growth(sizes: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    """Seconds of a planning by the size of the fleet, and the exponent of their growth with the number of nodes."""
    rows = []
    for nodes, sources, layers in sizes:
        profile, cluster = fleet(nodes, sources, layers)
        goal = Goal(weights={"energy": 1.0}, loss=0.3)
        plan = pt.plan("righttrain", profile=profile, cluster=cluster, batch=128, goal=goal, learning=CURVE)
        rows.append({"nodes": nodes, "sources": sources, "layers": layers, "plan_s": round(plan.plan_s or 0.0, 3)})
    first, last = rows[0], rows[-1]
    exponent = math.log(last["plan_s"] / first["plan_s"]) / math.log(last["nodes"] / first["nodes"])
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"fleets": rows, "plan_s_grows_with_nodes_to_the": round(exponent, 2), "most_memory_mb": round(most_mb)}


def main() -> None:
    """Print all figures."""
    options = parser(__doc__, f"{QUICK_SCENARIOS} scenarios, small fleets")
    options.add_argument("--first", type=int, default=0, help="the seed of the first scenario")
    options.add_argument("--scenarios", type=int, default=200, help="how many; with 0 only growth is printed")
    options.add_argument("--rows", action="store_true", help="print the scenarios only, one row each")
    options.add_argument(
        "--solvers", type=int, metavar="N", help="Compare solvers of CPU shares on N programs instead."
    )
    options.add_argument("--summary", nargs="+", metavar="FILE", help="sum up what --rows printed")
    asked = options.parse_args()
    if asked.summary:
        rows = [row for name in asked.summary for row in json.loads(Path(name).read_text())]
        print_result(summary(rows))
        return
    if asked.solvers:
        from benchmarks.righttrain.solvers import compare

        print(json.dumps(compare(asked.solvers), indent=1))
        return
    seeds = range(asked.first, asked.first + (QUICK_SCENARIOS if asked.quick else asked.scenarios))
    if asked.rows:
        print_result(against_optimum(seeds))
        return
    result = {"growth": growth(QUICK_SIZES if asked.quick else SIZES), "yardstick_ns": round(yardstick_s() * 1e9, 1)}
    if seeds:
        result["against_optimum"] = summary(against_optimum(seeds))
    print_result(result)


if __name__ == "__main__":
    main()
