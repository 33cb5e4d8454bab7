"""How far our estimates of plans are from what was measured, in time and peak memory."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.command import progress
from benchmarks.others.plans import Measured
from palmette.cost.evaluate import Evaluator

OPTIMIZER = "adam"


def row(plan: Measured) -> dict[str, Any]:
    """What was measured and estimated, and the errors."""
    evaluator = Evaluator(plan.profile, plan.cluster, OPTIMIZER)
    estimated_s = evaluator.price(plan.phase).iteration_s
    peak = max(size / plan.gpus[node] for node, size in evaluator.peak_bytes(plan.phase).items())
    found = {
        "plan": plan.name,
        "measured_s": plan.iteration_s,
        "estimated_s": estimated_s,
        "error": None if plan.iteration_s is None else estimated_s / plan.iteration_s - 1,
        "measured_bytes": plan.peak_bytes,
        "estimated_bytes": peak,
        "memory_error": None if plan.peak_bytes is None else peak / plan.peak_bytes - 1,
    }
    memory = "" if found["memory_error"] is None else f", memory {found['memory_error']:+.1%}"
    error = "" if found["error"] is None else f", {found['error']:+.1%} of what was measured"
    progress(f"{plan.name}: {estimated_s:.4g} s{error}{memory}")
    return found


def summary(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean absolute errors of a folder of plans, as far as they were measured."""
    own = [each for each in rows if each["plan"].startswith(f"{name}/")]
    errors = [abs(each["error"]) for each in own if each["error"] is not None]
    memory = [abs(each["memory_error"]) for each in own if each["memory_error"] is not None]
    return {
        "plans": len(own),
        "mean_error": statistics.fmean(errors) if errors else None,
        "mean_memory_error": statistics.fmean(memory) if memory else None,
    }
