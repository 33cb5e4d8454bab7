"""Large fleets to choose a cluster from, for each goal."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable
from typing import Any

import palmette as pt
from palmette.spec.measurements import Measurements

STEPS = 100_000
GOALS = ("time", "power", "energy", "edp", "0.3*time+0.7*energy", "time+power+energy+edp")


def random_device(rng: random.Random) -> dict[str, float]:
    return {
        "step_s": 10 ** rng.uniform(-2, 1),
        "build_s": rng.uniform(0, 60),
        "power_w": 10 ** rng.uniform(0, 2.5),
        "time_alpha": rng.uniform(1, 2),
        "power_beta": rng.uniform(0.8, 1),
    }


def without_build(rng: random.Random) -> dict[str, float]:
    return random_device(rng) | {"build_s": 0.0}


def alike(_: random.Random) -> dict[str, float]:
    return {"step_s": 0.1, "build_s": 5.0, "power_w": 10.0, "time_alpha": 1.1}


def equally_good(rng: random.Random) -> dict[str, float]:
    step_s = rng.uniform(0.05, 0.1)
    return {"step_s": step_s, "build_s": 0.0, "power_w": 1 / step_s}


def behind_one_link(rng: random.Random) -> dict[str, float]:
    return random_device(rng) | {"served_s": 0.002}


def planned(make: Callable[[random.Random], dict[str, float]], many: int, goal: str) -> dict[str, Any]:
    rng = random.Random(1)
    devices = {f"device{k}": make(rng) for k in range(many)}
    table = Measurements.model_validate({"steps": STEPS, "devices": devices})
    made = pt.plan("cluster", measurements=table, goal=goal)
    chosen, gap = len(made.decision["devices"]), made.decision.get("gap")
    return {"plan_s": round(made.plan_s or 0.0, 3), "chosen": chosen, "exact": made.decision["exact"], "gap": gap}


def fleets(devices: int) -> dict[str, Any]:
    """Seconds of a choice, how many devices it takes, its gap, and the peak of memory."""
    kinds = {make.__name__: make for make in (random_device, without_build, alike, equally_good, behind_one_link)}
    found = {name: {goal: planned(make, devices, goal) for goal in GOALS} for name, make in kinds.items()}
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"devices": devices, "fleets": found, "peak_memory_mib": round(peak_mib, 1)}
