"""How fast the evaluator prices plans, as JSON: ``python -m benchmarks.evaluator`` from the project's root."""

from __future__ import annotations

import itertools
import platform
import statistics
from collections.abc import Sequence
from time import process_time
from typing import Any

import palmette as pt
from benchmarks.command import parser, print_result
from benchmarks.evaluator import cases, timing
from palmette.cost.evaluate import Evaluator

SIZES, QUICK_SIZES = (10, 30, 100, 300, 1000, 3000), (10, 30, 100)
ROUNDS, QUICK_ROUNDS = 15, 2


def hierarchical(rounds: int) -> dict[str, Any]:
    """Evaluations a second of the three-node, 34-layer tree."""
    profile, cluster = cases.three_tiers()
    evaluator = Evaluator(profile, cluster)
    same, others, plan = cases.hybrid(8, 20), itertools.cycle(cases.all_cuts()), cases.plan()
    jobs = {
        "same tree": (lambda: evaluator.price(same), 400),
        "other cuts each time": (lambda: evaluator.price(next(others)), 400),
        "pt.estimate": (lambda: pt.estimate(plan, profile=profile, cluster=cluster), 100),
        "making the phase": (lambda: cases.hybrid(8, 20), 100),
    }
    return timing.rates(jobs, rounds)


def by_delivery(rounds: int) -> dict[str, float]:
    """Processor time of a price of the same trees where samples are kept or sent ahead, in that where they are not."""
    world, used_s = cases.three_tiers(), {way: list[float]() for way in cases.WAYS}
    for _ in range(rounds):
        for way in cases.WAYS:
            evaluator, phases = Evaluator(*world), [cases.delivered(phase, way) for phase in cases.all_cuts()[::7]]
            began_s = process_time()
            for phase in phases:
                evaluator.price(phase)
            used_s[way].append(process_time() - began_s)
    plain_s = statistics.median(used_s[cases.WAYS[0]])
    return {way: round(statistics.median(seconds) / plain_s, 2) for way, seconds in used_s.items()}


def growth(kind: str, sizes: Sequence[int]) -> dict[str, Any]:
    """Seconds of fleets of growing size, and the exponent of that growth in operations."""
    rows = []
    for size in sizes:
        profile, cluster, phase = cases.fleet(kind, size)
        evaluator = Evaluator(profile, cluster)
        operations = len(evaluator.price(phase).played[0][1].steps)
        seconds = timing.fastest_s(lambda e=evaluator, p=phase: e.price(p), max(3, 300 // size))
        rows.append({"devices": size, "operations": operations, "seconds": round(seconds, 6)})
    slope = timing.exponent([row["operations"] for row in rows], [row["seconds"] for row in rows])
    return {"exponent": round(slope, 3), "sizes": rows}


def first_price(kind: str, size: int) -> float:
    """Seconds of a fleet's first price: routes found and tables summed up on the way."""
    profile, cluster, phase = cases.fleet(kind, size)
    return round(timing.fastest_s(lambda: Evaluator(profile, cluster).price(phase), 3), 4)


def main() -> None:
    """Print all figures."""
    quick = parser(__doc__, "small fleets, few rounds").parse_args().quick
    sizes, rounds = (QUICK_SIZES, QUICK_ROUNDS) if quick else (SIZES, ROUNDS)
    devices = min(1000, sizes[-1])
    result = {
        "python": platform.python_version(),
        "three nodes, 34 layers": hierarchical(rounds),
        "a price by delivery": by_delivery(rounds),
        f"{devices} devices, first price, s": {kind: first_price(kind, devices) for kind in cases.FLEETS},
        "growth": {kind: growth(kind, sizes) for kind in cases.FLEETS},
    }
    print_result(result)


if __name__ == "__main__":
    main()
