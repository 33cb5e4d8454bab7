"""What ``auto`` chooses for the least time to a loss, by a learning curve of short real pilots of the task.

Pilots vary data, replicas, windows and codecs as ``palmette pilot`` does, and their length: each has the task's
schedule over its own. They are none of the runs that ``auto`` is judged by: other seeds, and at most two thirds of the
iterations. Like a user's, they are evaluated on the held-out data of which the loss is to be reached.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import palmette as pt
from benchmarks.talk_less.methods import DEVICES, EVALUATED_EVERY, SAMPLES, cluster, plan
from benchmarks.talk_less.running import estimated_s
from benchmarks.talk_less.tasks import Task
from palmette.control.pilot.grid import PilotGrid, PilotSetting, shorter_lengths
from palmette.spec.cluster import Cluster
from palmette.spec.exchange import known_exchange
from palmette.spec.goal import Goal
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.spec.sync import USUAL_OUTER

EPOCHS = 4
_WINDOWS, _CODECS = (1, 10, 50), ("int8", "lowrank:2")
_SEEDS = 100
"""Between the seeds of pilots and those of trainings; each pilot has one of its own."""
_SHORT, _LONG = EVALUATED_EVERY, 2 * EVALUATED_EVERY
"""Iterations of an epoch of a pilot, with the least and the most data."""


def piloted(
    task: Task, profile: Profile, iterations: int, bandwidths: Sequence[float], most_replicas: int, *, seed: int
) -> dict[str, Any]:
    """The learning curve of a task, and what its pilots cost: here, and on the devices by the event clock.

    A curve knows what it costs that so many replicas train apart, as they do where each of so many nodes has data.
    """
    replicas = (1, most_replicas)
    fractions, where = (_LONG / iterations, _SHORT / iterations), cluster(5.0, len(task.train))
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        learning = pt.pilot(
            task.recipe(iterations), folder, cluster=where, profile=profile,
            batch=len(DEVICES) * SAMPLES, epochs=EPOCHS, fractions=fractions, replicas=replicas, windows=_WINDOWS,
            outer=USUAL_OUTER, exchange_codecs=_CODECS, seed=_SEEDS * (seed + 1),
        )  # fmt: skip
    grid = PilotGrid(
        fractions=fractions, replicas=replicas, windows=_WINDOWS, outer=USUAL_OUTER,
        exchange_codecs=tuple(map(known_exchange, _CODECS)),
    )  # fmt: skip
    settings = grid.settings(where, shorter_lengths(EPOCHS))
    return {
        "learning": learning.model_dump(mode="json"),
        "runs": len(settings),
        "iterations": round(sum(_iterations(each, iterations) for each in settings)),
        "here_s": time.monotonic() - began_s,
        "load": round(os.getloadavg()[0], 1),
        "on_the_devices_s": {f"{b:g}": _there_s(settings, profile, iterations, b) for b in bandwidths},
    }


def _iterations(setting: PilotSetting, iterations: int) -> float:
    return (setting.epochs or EPOCHS) * setting.fraction * iterations


def _there_s(settings: Sequence[PilotSetting], profile: Profile, iterations: int, bandwidth_mbit: float) -> float:
    """What the pilots would take on the cluster, where private data has two replicas, one run after the other."""
    samples = len(DEVICES) * SAMPLES * iterations
    return sum(
        _iterations(each, iterations) * estimated_s(_as_replicas(each, profile), profile, bandwidth_mbit, samples)
        for each in settings
    )


def _as_replicas(setting: PilotSetting, profile: Profile) -> Plan:
    apart = {"sync": "every", "every": setting.window, "outer": setting.outer, "server": "server"}
    agreed = apart if setting.window > 1 else {"meet": "server", "overlap": True}
    return plan(profile.model, len(profile.layers), {**agreed, "exchange": setting.exchange.model_dump()})


def planned(learning: Learning, profile: Profile, where: Cluster, loss: float) -> Plan:
    """What ``auto`` chooses for the least time to a loss."""
    return pt.plan(
        "auto", profile=profile, cluster=where, batch=len(DEVICES) * SAMPLES, goal=Goal(loss=loss), lossy=True,
        overlap=True, learning=learning,
    )  # fmt: skip


def agreement(phase: Phase, depth: int) -> dict[str, Any] | None:
    """How the replicas of a phase agree, as fields of a method; None where it is not the network on each device."""
    placed = sorted((each.node, each.layers, each.codec) for each in phase.instances)
    shares = sorted((each.node, each.samples) for each in phase.sources)
    if placed != [(name, (1, depth), "none") for name in DEVICES] or shares != [(name, SAMPLES) for name in DEVICES]:
        return None
    names = ("sync", "every", "outer", "server", "meet", "overlap", "averaging", "exchange")
    whole = phase.model_dump(mode="json")
    return {name: whole[name] for name in names if name in whole}


def planned_iterations(made: Plan) -> int:
    """How many iterations a plan trains."""
    assert made.estimate is not None
    assert made.estimate.epoch_batches is not None
    return (made.phases[0].epochs or 1) * made.estimate.epoch_batches


def trained_iterations(made: Plan) -> int:
    """The same in whole epochs of all methods, as the loss is measured after each of these."""
    return math.ceil(planned_iterations(made) / EVALUATED_EVERY) * EVALUATED_EVERY


def evaluated_often(made: Plan) -> Plan:
    """A plan whose epochs are as long as those of all methods, so that it is evaluated as often."""
    (phase,) = made.phases
    sources = [each.model_copy(update={"epoch_samples": EVALUATED_EVERY * each.samples}) for each in phase.sources]
    often = phase.model_copy(update={"sources": tuple(sources), "epochs": None})
    return made.model_copy(update={"phases": (often,), "estimate": None})


def seconds_of(plan: Plan, iterations: float) -> float:
    """What so many iterations of a plan take by the event clock, samples that travel included.

    Where all samples arrive before training, that is at the beginning; on the way they arrive evenly.
    """
    known, ahead = plan.estimate, plan.phases[0].ahead
    assert known is not None
    assert known.epoch_batches is not None
    assert known.first_epoch_s is not None
    assert known.epoch_s is not None
    epochs = iterations / known.epoch_batches
    if epochs < 1 and ahead:
        return epochs * known.first_epoch_s
    return known.first_epoch_s + (epochs - 1) * known.epoch_s
