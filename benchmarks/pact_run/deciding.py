"""PACT's decisions in a run: after every epoch anew, by the loss and the time that were seen and the pilots' table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.pact_run.pilot import FIRST, Known
from benchmarks.pact_run.setting import PAIRS, TARGET
from palmette.control.adapt.online import OnlineController
from palmette.cost.handover import change_price
from palmette.plan.core.strategy import Task
from palmette.runtime.training.job import EpochCallback, EpochStatus
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from palmette.spec.problem import Pair, Problem


def height(loss: float) -> float:
    """How far a loss is above the target, as a logarithm; 0 at the target and below."""
    return max(0.0, math.log(loss / TARGET))


def director(task: Task, phases: dict[Pair, Phase], known: Known) -> EpochCallback:
    """Who decides after every epoch."""

    def on_epoch_end(standing: EpochStatus) -> Sequence[Phase] | None:
        losses = standing.losses
        table = problem(task, phases, known, losses[-1], switching=len(losses) >= FIRST[0])
        online = OnlineController(phases, 0.0, table.deadline_s, lambda _, __: (table, len(losses)))
        return online(replace(standing, losses=[height(loss) for loss in losses]))

    return on_epoch_end


def problem(task: Task, phases: dict[Pair, Phase], known: Known, loss: float, *, switching: bool) -> Problem:
    """The table, in logarithms of the loss, with rises as at a loss; without switches as long as no pilot had any."""
    run, change = [], []
    for (model, nodes), (expected, robust) in known.runs.items():
        price = task.evaluator.price(phases[model, nodes])
        costs = {"model": model, "nodes": nodes, "time_s": price.epoch.time_s, "energy_j": price.epoch.energy_j}
        run.append(costs | {"loss_expected": [expected], "loss_robust": [robust]})
    for (here, there), line in known.rises.items():
        rise = line.at(loss)
        spent = change_price(phases[here], phases[there], task.evaluator)
        costs = {"from": here, "to": there, "time_s": spent.time_s, "energy_j": spent.energy_j}
        change.append(costs | {"loss_expected": rise, "loss_robust": rise})
    fields = {
        "format": "palmette.pact/1",
        "models": [model for model, _ in PAIRS],
        "node_sets": [nodes for _, nodes in PAIRS],
        "start": {"model": PAIRS[0][0], "nodes": PAIRS[0][1], "loss": height(math.log(10))},
        "target_loss": 0.0,
        "deadline_s": task.goal.deadline_s,
        "loss_step": 0.002,
        "time_step_s": 0.01,
        "run": run,
        "change": change if switching else [],
    }
    return validated(Problem, fields)
