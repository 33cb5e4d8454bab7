"""PACT's decisions in a run: after every epoch anew, by the loss and the time that were seen and the pilots' table."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from benchmarks.pact_run.pilot import FIRST, Known, Switch, height
from benchmarks.pact_run.setting import PAIRS
from palmette.control.adapt.online import OnlineController
from palmette.cost.handover import change_price
from palmette.plan.core.strategy import Task
from palmette.runtime.training.job import EpochCallback, EpochStatus
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from palmette.spec.problem import Pair, Problem


def director(task: Task, phases: dict[Pair, Phase], known: Known) -> EpochCallback:
    """Who decides after every epoch."""

    def on_epoch_end(standing: EpochStatus) -> Sequence[Phase] | None:
        losses = standing.losses
        table = problem(task, phases, known, losses[-1], offered(task, phases, known, standing))
        online = OnlineController(phases, 0.0, table.deadline_s, lambda _, __: (table, len(losses)))
        return online(replace(standing, losses=[height(loss) for loss in losses]))

    return on_epoch_end


def offered(task: Task, phases: dict[Pair, Phase], known: Known, standing: EpochStatus) -> set[Switch]:
    """The switches that may be made: none as long as no pilot had any, and not to the last pair if that is late."""
    if len(standing.losses) < FIRST[0]:
        return set()
    here = next(pair for pair, phase in phases.items() if phase.pruning == standing.phase.pruning)
    if here == PAIRS[-1] or _in_time(task, phases, known, standing, here):
        return set(known.rises)
    return set(known.rises) - {(here, PAIRS[-1])}


def _in_time(task: Task, phases: dict[Pair, Phase], known: Known, standing: EpochStatus, here: Pair) -> bool:
    """Whether the last pair, from now on, should reach the target by the deadline."""
    whole = len(standing.losses) - (0 if here == PAIRS[0] else standing.segment_epochs)
    epochs = known.to_target[here].robust(standing.losses[-1], whole)
    change_s = change_price(phases[here], phases[PAIRS[-1]], task.evaluator).time_s
    last_s = task.evaluator.price(phases[PAIRS[-1]]).epoch.time_s
    return standing.time_s + change_s + epochs * last_s <= (task.goal.deadline_s or math.inf)


def problem(task: Task, phases: dict[Pair, Phase], known: Known, loss: float, switches: Collection[Switch]) -> Problem:
    """The table, in logarithms of the loss, with these switches and their rises as at a loss."""
    run, change = [], []
    for (model, nodes), (expected, robust) in known.runs.items():
        price = task.evaluator.price(phases[model, nodes])
        costs = {"model": model, "nodes": nodes, "time_s": price.epoch.time_s, "energy_j": price.epoch.energy_j}
        run.append(costs | {"loss_expected": [expected], "loss_robust": [robust]})
    for here, there in sorted(switches):
        rise = known.rises[here, there].at(loss)
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
        "change": change,
    }
    return validated(Problem, fields)
