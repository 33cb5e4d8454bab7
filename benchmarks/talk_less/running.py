"""Real runs: a whole one for the losses and bytes, and a short one on shaped links for the seconds of an iteration.

What is learnt depends on the plan alone, never on how fast links are. So a training is run once, with nothing slowed
down, and its iterations are timed on the paced testbed: seconds to a loss are their product.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import palmette as pt
from benchmarks.talk_less.methods import EVALUATED_EVERY, cluster, dilation
from benchmarks.talk_less.tasks import Task
from palmette.spec.estimate import Estimate
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile

_STEPS, _WINDOWS = 6, 2
"""How long an iteration is timed; windows at least for an epoch."""
Evaluations = list[tuple[int, float]]
"""After so many iterations, the loss on held-out data."""


def learnt(
    task: Task,
    plan: Plan,
    profile: Profile,
    iterations: int,
    *,
    private: bool = True,
    seed: int = 0,
    warm: int | None = None,
) -> dict[str, Any]:
    """The losses of a training, and the bytes that replicas exchanged in an iteration, over all links.

    The learning rate rises for ``warm`` iterations, by default as long as the task says for so many.
    """
    recipe = task.recipe(iterations)
    recipe = recipe if warm is None else replace(recipe, warmup=warm)
    with tempfile.TemporaryDirectory() as folder:
        where = cluster(100.0, len(task.train), private=private)
        pt.run(
            plan, folder, profile=profile, cluster=where, recipe=recipe, iterations=iterations, testbed="none",
            trace="full", progress=False, replan=False, seed=seed,
        )  # fmt: skip
        sent = sum(line["bytes"] for line in _lines(Path(folder) / "trace.jsonl") if line["op"] == "send")
        noted = [line for line in _lines(Path(folder) / "metrics.jsonl") if "accuracy" in line]
    return {
        "evaluations": [(line["iteration"] + 1, round(line["loss"], 4)) for line in noted],
        "bytes_an_iteration": sent / iterations,
    }


def timed(task: Task, plan: Plan, profile: Profile, bandwidth_mbit: float, *, quick: bool = False) -> float:
    """Measured seconds of an iteration on the emulated clock, exchange included; windows dilated much unless ``quick``.

    An epoch ends with an exchange. Where its last window is shorter, the event clock says what that adds in the mean.
    """
    phase = plan.phases[0]
    together = phase.sync_kind.one_model
    iterations = _STEPS if together else max(_WINDOWS * (phase.every or EVALUATED_EVERY), EVALUATED_EVERY)
    where, slower = cluster(bandwidth_mbit, len(task.train)), None if together or quick else dilation(bandwidth_mbit)
    while True:
        with tempfile.TemporaryDirectory() as folder:
            found = pt.run(
                plan, folder, profile=profile, cluster=where, recipe=task.recipe(iterations), iterations=iterations,
                testbed="paced", dilation=slower, progress=False, replan=False,
            )  # fmt: skip
        epoch_s = found.measured[0].epoch_s
        iteration_s = found.iteration_s if epoch_s is None else epoch_s / EVALUATED_EVERY
        if iteration_s is not None:
            known = pt.estimate(plan, profile=profile, cluster=where)
            short = 1.0 if epoch_s is not None else _mean_s(known) / known.iteration_s
            return iteration_s * short
        slower = found.dilation_increases[-1].dilation  # this machine could not keep up: again, and slower


def estimated_s(plan: Plan, profile: Profile, bandwidth_mbit: float, samples: int) -> float:
    """Seconds of an iteration by the evaluator, exchanges of an epoch shared by its iterations."""
    return _mean_s(pt.estimate(plan, profile=profile, cluster=cluster(bandwidth_mbit, samples)))


def _mean_s(estimate: Estimate) -> float:
    assert estimate.epoch_s is not None
    return estimate.epoch_s / EVALUATED_EVERY


def reached(evaluations: Evaluations, target: float) -> float | None:
    """After how many iterations a loss was reached, between evaluations on a straight line; None if it was not."""
    before: tuple[int, float] | None = None
    for at, loss in evaluations:
        if loss <= target:
            if before is None:
                return at
            return before[0] + (at - before[0]) * (before[1] - target) / (before[1] - loss)
        before = (at, loss)
    return None


def to_target(row: dict[str, Any], target: float) -> dict[str, Any]:
    """Iterations, bytes and seconds by bandwidth to a loss, where it was reached."""
    many = reached(row["evaluations"], target) if "evaluations" in row else None
    if many is None:
        return {"iterations_to_target": None}
    seconds = {bandwidth: many * each for bandwidth, each in row["iteration_s"].items()}
    return {"iterations_to_target": many, "bytes_to_target": many * row["bytes_an_iteration"], "target_s": seconds}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
