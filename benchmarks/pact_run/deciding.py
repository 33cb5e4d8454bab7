"""PACT's decisions in a run: after every epoch anew, by the loss and the time that were seen and the pilots' table.

Bronze is slow, and what it needs is not to be seen before. So a training goes there only where that should be in time,
and keeps a way out: back to silver, with the model that it has by then. As long as the way out would be in time one
epoch later, it stays; afterwards only where it should reach the target on bronze.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from benchmarks.pact_run.pilot import FIRST, SETTLED, Known, Switch, before_last, height, on_way_out, recent
from benchmarks.pact_run.setting import PAIRS, WAY_OUT
from palmette.control.adapt.online import OnlineController
from palmette.cost.handover import change_price
from palmette.plan.core.strategy import Task
from palmette.runtime.training.job import EpochCallback, EpochStatus
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from palmette.spec.problem import Pair, Problem

ENTER, STAY, LEAVE = 0.9, 0.8, 0.9
"""How sure it should be: of bronze before it begins, of bronze once the way out closes, and of the way out."""


@dataclass(frozen=True)
class Deadline:
    """Whether epochs of a pair fit before the deadline."""

    task: Task
    phases: dict[Pair, Phase]

    def left_s(self, standing: EpochStatus) -> float:
        """Seconds."""
        return (self.task.goal.deadline_s or math.inf) - standing.time_s

    def epochs_s(self, pair: Pair, epochs: float) -> float:
        """The seconds of as many whole epochs."""
        return math.ceil(epochs) * self.task.evaluator.price(self.phases[pair]).epoch.time_s

    def change_s(self, here: Pair, there: Pair) -> float:
        """The seconds of a change."""
        return change_price(self.phases[here], self.phases[there], self.task.evaluator).time_s


def director(task: Task, phases: dict[Pair, Phase], known: Known) -> EpochCallback:
    """Who decides after every epoch."""
    pairs = list[Pair]()

    def on_epoch_end(standing: EpochStatus) -> Sequence[Phase] | None:
        here, losses, clock = pair_of(phases, standing.phase), standing.losses, Deadline(task, phases)
        pairs.append(here)
        before = list(zip(pairs, losses, strict=True))
        if here == WAY_OUT or (here == PAIRS[-1] and leaves(clock, known, standing, before)):
            over = height(losses[-1]) <= 0 or clock.left_s(standing) <= 0
            return [] if over else [phases[WAY_OUT].model_copy(update={"epochs": 1})]
        table = problem(task, phases, rates_now(known, before), losses[-1], offered(clock, known, standing, before))
        online = OnlineController(phases, 0.0, table.deadline_s, lambda _, __: (table, len(losses)))
        return online(replace(standing, losses=[height(loss) for loss in losses]))

    return on_epoch_end


def pair_of(phases: dict[Pair, Phase], phase: Phase) -> Pair:
    """The pair that a phase trains."""
    return next(p for p, own in phases.items() if (own.pruning, own.nodes()) == (phase.pruning, phase.nodes()))


Before = Sequence[tuple[Pair, float]]
"""The pair and the loss of each epoch so far."""


def offered(clock: Deadline, known: Known, standing: EpochStatus, before: Before) -> set[Switch]:
    """The switches that may be made: none as long as no pilot had any, and not to the last pair if that may be late."""
    if len(before) < FIRST[0]:
        return set()
    here, last = before[-1][0], PAIRS[-1]
    if here == last:
        return set(known.rises)
    epochs = known.to_target[here].within(before_last(before), ENTER)
    in_time = clock.change_s(here, last) + clock.epochs_s(last, epochs) <= clock.left_s(standing)
    return set(known.rises) if in_time else set(known.rises) - {(here, last)}


def rates_now(known: Known, before: Before) -> Known:
    """What is known, with the epochs of the last pair as they should be from here on, expected and robust.

    As a rate, which the table has: from the height of the loss, and its rise, to the target in so many epochs.
    """
    (here, loss), last = before[-1], PAIRS[-1]
    if len(before) < FIRST[0] or here == PAIRS[0]:
        return known
    if here == last:
        epochs, left = known.rest, (recent([each for _, each in before]),)
        fall = height(loss)
    else:
        epochs, left = known.to_target[here], before_last(before)
        fall = max(0.0, height(loss) + known.rises[here, last].at(loss))
    expected, robust = (-fall / max(1.0, epochs.within(left, sure)) for sure in (0.5, ENTER))
    return replace(known, runs=known.runs | {last: (expected, robust)})


def leaves(clock: Deadline, known: Known, standing: EpochStatus, before: Before) -> bool:
    """Whether a training on bronze takes the way out now."""
    left_s, here = clock.left_s(standing), PAIRS[-1]
    if standing.segment_epochs < SETTLED or height(before[-1][1]) <= 0:
        return False
    rest = known.rest.within((recent([loss for _, loss in before]),), STAY)
    if clock.epochs_s(here, rest) <= left_s:
        return False
    out = clock.change_s(here, WAY_OUT) + clock.epochs_s(WAY_OUT, known.way_out.within(on_way_out(before), LEAVE))
    if clock.epochs_s(here, 1) + out <= left_s:
        return False  # it can wait for another epoch
    return (
        clock.change_s(here, WAY_OUT) + clock.epochs_s(WAY_OUT, known.way_out.within(on_way_out(before), 0.5)) <= left_s
    )


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
