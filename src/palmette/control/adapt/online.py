"""PACT in a real training: after every epoch it plans again with the loss and the time that were really seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palmette.cost.evaluate import Evaluator
from palmette.errors import Infeasible
from palmette.plan.core.strategy import Task
from palmette.plan.pact.action_selection import ActionSelector
from palmette.plan.pact.actions import actions_of
from palmette.plan.pact.expanded_graph import build_graph
from palmette.plan.pact.independent_errors import with_independent_errors
from palmette.plan.pact.online import EXPECTED_WEIGHTS
from palmette.plan.pact.phases import trainable_phases
from palmette.plan.pact.problem_from_profile import PlannedTraining, build_problem
from palmette.plan.pact.simulation import TrainingState
from palmette.predict.registry import load_predictor
from palmette.runtime.training.job import Standing
from palmette.spec.files import validated
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.plan import Phase, Plan
from palmette.spec.problem import Pair, Problem

TIME_STEPS = 500
"""The deadline's parts that a decision in a run tells apart at most."""

Ahead = Callable[[Standing, Pair], tuple[Problem, int]]
"""The problem as it stands, and how many of its epochs are behind."""


@dataclass(frozen=True)
class Online:
    """Decides, after every epoch, which model is trained on which nodes in the next, or that it is over."""

    phases: Mapping[Pair, Phase]
    target: float
    deadline_s: float
    ahead: Ahead
    risk: bool = True

    def __call__(self, standing: Standing) -> Sequence[Phase] | None:
        """The phase of the next epoch; none where the loss is reached, time is up, or nothing more is learnt.

        Where PACT knows no way to the target, training goes on as it is for as long as the loss still falls; a change,
        which lifts it, is a new beginning.
        """
        here = self._pair(standing.phase)
        if here is None:
            return None
        if standing.losses[-1] <= self.target or standing.time_s >= self.deadline_s:
            return []
        there = self._next(standing, here)
        if there is None:
            *before, last = standing.losses[-standing.segment_epochs :]
            falls = last < min(before, default=math.inf)
            return [standing.phase.model_copy(update={"epochs": 1})] if falls else []
        return [self.phases[there].model_copy(update={"epochs": 1, "compress": standing.phase.compress})]

    def _next(self, standing: Standing, here: Pair) -> Pair | None:
        try:
            problem, epochs = self.ahead(standing, here)
        except Infeasible:
            return None
        actions, spent_s = actions_of(problem), standing.time_s if epochs else 0.0
        state = TrainingState(epochs, actions.pairs.index(here), standing.losses[-1], spent_s)
        # What is left is worth less where epochs take longer than the table says.
        left_s = (problem.deadline_s - spent_s) / _slowness(problem, here, standing.epoch_s)
        problem = problem.model_copy(update={"deadline_s": spent_s + left_s})
        for weight in EXPECTED_WEIGHTS:  # the first that knows a way: a training cannot wait for finer resolutions
            graph = build_graph(problem, actions, actions.blend(weight))
            action = ActionSelector(graph, weigh_risk=self.risk and not weight).select(state)
            if action is not None:
                return actions.pairs[int(actions.to_pair[action])]
        return None

    def _pair(self, phase: Phase) -> Pair | None:
        alike = ("pruning", "sync", "sources", "instances")
        for pair, own in self.phases.items():
            if all(getattr(own, field) == getattr(phase, field) for field in alike):
                return pair
        return None


def _slowness(problem: Problem, here: Pair, epoch_s: float) -> float:
    """How many times longer than in the table an epoch really takes; 1 where it is no longer."""
    told_s = next((run.time_s for run in problem.run if run.pair == here), epoch_s)
    return max(1.0, epoch_s / told_s) if told_s > 0 else 1.0


def director(plan: Plan, evaluator: Evaluator) -> Online | None:
    """Who is asked at the end of every epoch: PACT for a plan that it made for a real network, else nobody."""
    asked = plan.asked
    if plan.strategy != "pact" or asked is None or not evaluator.cluster.sets:
        return None
    task = Task(profile=evaluator.profile, cluster=evaluator.cluster, batch=plan.batch, optimizer=evaluator.optimizer)
    options: Mapping[str, Any] = asked.options
    phases, risk = trainable_phases(task), bool(options.get("risk", True))
    if options.get("problem") is not None:
        table = validated(Problem, options["problem"])
        target, deadline_s = asked.loss or table.target_loss, asked.deadline_s or table.deadline_s
        table = table.model_copy(update={"target_loss": target, "deadline_s": deadline_s})
        if options.get("independent"):
            table = with_independent_errors(table)
        return Online(phases, target, deadline_s, lambda standing, _: (table, len(standing.losses)), risk)
    if asked.loss is None or asked.deadline_s is None:
        return None
    ahead = _Foreseen(task, asked.loss, asked.deadline_s, options)
    return Online(phases, asked.loss, asked.deadline_s, ahead, risk)


class _Foreseen:
    """Problems made anew from what was seen, by the predictor that the plan was made with."""

    def __init__(self, task: Task, target: float, deadline_s: float, options: Mapping[str, Any]) -> None:
        self._task, self._target, self._deadline_s = task, target, deadline_s
        self._predictor = load_predictor(str(options.get("predictor", "shipped")), options.get("bound"))
        self._classes = int(options.get("classes", 10))

    def __call__(self, standing: Standing, here: Pair) -> tuple[Problem, int]:
        left_s = self._deadline_s - standing.time_s
        goal = Goal(weights=parse_weights("energy"), loss=self._target, deadline_s=left_s)
        task = Task(
            profile=self._task.profile,
            cluster=self._task.cluster,
            batch=self._task.batch,
            optimizer=self._task.optimizer,
            goal=goal,
        )
        seen = (math.log(self._classes), *standing.losses)
        changed = len(standing.losses) > standing.segment_epochs
        begun = len(seen) - standing.segment_epochs if changed else 0
        training = PlannedTraining(task, self._predictor, self._classes)
        problem = build_problem(training, seen[begun:], here, seen[:begun])
        return problem.model_copy(update={"time_step_s": max(problem.time_step_s, left_s / TIME_STEPS)}), 0
