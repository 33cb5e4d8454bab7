"""How near PACT comes to the optimum, by how far predictions are off, beside StaticLearn and OneSwitch."""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import Any

import palmette as pt
from benchmarks.pact.cases import training
from palmette.spec.problem import Problem

Record = dict[str, Any]
RIVALS = ("static-learn", "one-switch")
FINE, COARSE = 0.0002, 0.002
"""Resolutions of the loss; that of time is 25 times as many seconds."""


def energy_j(strategy: str, problem: Problem, **options: Any) -> float:
    """Joules of a strategy's schedule; infinite where it finds none."""
    try:
        return float(pt.plan(strategy, problem=problem, **options).decision["energy_j"])
    except pt.Infeasible:
        return math.inf


def judged(many: int, *, independent: bool = False, **case: Any) -> Record:
    """PACT on random trainings: how often it meets the goal, and its energy relative to the optimum's."""
    steps = {"loss_step": FINE, "time_step_s": 25 * FINE}
    problems = [training(seed, **(steps | case)) for seed in range(many)]
    least = [energy_j("pact-optimum", problem) for problem in problems]
    possible = [(problem, best) for problem, best in zip(problems, least, strict=True) if best < math.inf]
    ours, careless = (
        [energy_j("pact", problem, risk=risk, independent=independent) for problem, _ in possible]
        for risk in (True, False)
    )
    ratios = sorted(a / best for a, (_, best) in zip(ours, possible, strict=True) if a < math.inf)
    plain = [a / best for a, (_, best) in zip(careless, possible, strict=True) if a < math.inf]
    row = {
        "problems": len(possible),
        "met": sum(a < math.inf for a in ours) / len(possible),
        "mean": fmean(ratios),
        "quartiles": [ratios[len(ratios) // 4], median(ratios), ratios[3 * len(ratios) // 4]],
        "within_3_percent": sum(ratio <= 1.03 for ratio in ratios) / len(ratios),
        "ninth_decile": ratios[int(0.9 * len(ratios))],
        "worst": ratios[-1],
        "mean_without_factors": fmean(plain),
    }
    for rival in RIVALS:
        theirs = [energy_j(rival, problem) for problem, _ in possible]
        both = [(a, b) for a, b in zip(ours, theirs, strict=True) if max(a, b) < math.inf]
        row[rival] = (
            {"problems": len(both), "ours_relative": sum(a for a, _ in both) / sum(b for _, b in both)}
            if both
            else None
        )
    return row
