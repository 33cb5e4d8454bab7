"""Online planning in a real training: after every epoch PACT plans again with the measured loss and time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palmette.cost.evaluate import Evaluator
from palmette.errors import Infeasible
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import Task
from palmette.plan.pact.action_selection import ActionSelector
from palmette.plan.pact.actions import actions_of
from palmette.plan.pact.expanded_graph import build_graph
from palmette.plan.pact.independent_errors import with_independent_errors
from palmette.plan.pact.online import estimates_by_caution
from palmette.plan.pact.phases import trainable_phases
from palmette.plan.pact.problem_from_profile import PlannedTraining, build_problem, parse_set_classes
from palmette.plan.pact.simulation import TrainingState, energy_of_staying
from palmette.predict.registry import load_predictor
from palmette.runtime.training.job import EpochStatus
from palmette.spec.files import validated
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.plan import Phase, Plan
from palmette.spec.problem import Pair, Problem

TIME_STEPS = 500
"""Largest resolution of time in a decision during a run: parts of the deadline."""

PATIENCE = 3
"""Epochs without a new lowest loss after which a loss no longer falls: that of one epoch is noisy."""

ProblemAt = Callable[[EpochStatus, Pair], tuple[Problem, int]]
"""The problem as it stands, and how many of its epochs are over."""


@dataclass(frozen=True)
class OnlineController:
    """Decides after every epoch which model is trained on which nodes in the next, or that training ends."""

    phases: Mapping[Pair, Phase]
    target: float
    deadline_s: float
    problem_at: ProblemAt
    risk: bool = True

    def __call__(self, standing: EpochStatus) -> Sequence[Phase] | None:
        """The phase of the next epoch; none where the loss is reached, time is up, or the loss no longer falls.

        Where PACT finds no schedule to the target, training continues as it is for as long as the loss still falls;
        a change, which raises it, starts this again.
        """
        here = self._pair(standing.phase)
        if here is None:
            return None
        if standing.losses[-1] <= self.target or standing.time_s >= self.deadline_s:
            return []
        found = self._next(standing, here)
        if found is None:
            since = standing.losses[-standing.segment_epochs :]
            return [standing.phase.model_copy(update={"epochs": 1})] if _falls(since) else []
        there, compress = found
        return [self.phases[there].model_copy(update={"epochs": 1, "compress": compress})]

    def _next(self, standing: EpochStatus, here: Pair) -> tuple[Pair, str] | None:
        """The pair of the next epoch, and how its model is made smaller; None where no path is found.

        Where a problem leaves no choice between pruning and distillation, that of the plan stays.
        """
        try:
            problem, epochs = self.problem_at(standing, here)
        except Infeasible:
            return None
        actions, spent_s = actions_of(problem), standing.time_s if epochs else 0.0
        state = TrainingState(epochs, actions.pairs.index(here), standing.losses[-1], spent_s)
        # The time left is scaled down where epochs take longer than the table says.
        left_s = (problem.deadline_s - spent_s) / _slowdown(problem, here, standing.epoch_s)
        problem = problem.model_copy(update={"deadline_s": spent_s + left_s})
        moved = len(standing.losses) > standing.segment_epochs
        for caution, losses in enumerate(estimates_by_caution(actions)):
            # The first that finds one: a training cannot wait for finer resolutions.
            selector = ActionSelector(build_graph(problem, actions, losses), weigh_risk=self.risk and not caution)
            action = selector.select(state)
            if action is not None:
                there = actions.pairs[int(actions.to_pair[action])]
                again = moved and self.phases[there].pruning == self.phases[here].pruning
                pays = _pays(problem, selector, state, action, again=again)
                compress = actions.compress[action] if "distill" in actions.compress else standing.phase.compress
                return (there, compress) if pays else (here, standing.phase.compress)
        return None

    def _pair(self, phase: Phase) -> Pair | None:
        same = ("pruning", "sync", "sources", "instances")
        for pair, own in self.phases.items():
            if all(getattr(own, field) == getattr(phase, field) for field in same):
                return pair
        return None


def _falls(losses: Sequence[float]) -> bool:
    """Whether losses had a new lowest in the last few epochs."""
    return min(losses[-PATIENCE:]) < min(losses[:-PATIENCE], default=math.inf)


def _pays(problem: Problem, selector: ActionSelector, state: TrainingState, action: int, *, again: bool) -> bool:
    """Whether an action saves energy beside never switching any more, by more than what is uncertain about it.

    The way that begins with a switch counts by the estimates that found it, which are robust about switches, staying
    by the expected ones. Another switch between nodes, which may only undo an earlier one, has to pay even if staying
    went better than expected by as much as the robust estimates are worse. Where an epoch without a switch is one too
    many by the estimates that found the way, there is nothing to weigh.
    """
    actions = selector.graph.actions
    stay = actions.stay(state.pair)
    if stay is None or action == stay or selector.weight(state, stay) == math.inf:
        return True
    staying = 2 * actions.expected - actions.robust if again else actions.expected
    return selector.weight(state, action) < energy_of_staying(problem, actions, staying, state)


def _slowdown(problem: Problem, here: Pair, epoch_s: float) -> float:
    """How many times longer than in the table an epoch really takes; 1 where it is no longer."""
    table_s = next((run.time_s for run in problem.run if run.pair == here), epoch_s)
    return max(1.0, epoch_s / table_s) if table_s > 0 else 1.0


def online_controller(plan: Plan, evaluator: Evaluator) -> OnlineController | None:
    """What plans again after every epoch: PACT for a plan that it made for a real network, else nothing."""
    asked, strategy = plan.asked, strategies().get(plan.strategy)
    if strategy is None or not strategy.decides_online or asked is None or not evaluator.cluster.sets:
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
        return OnlineController(phases, target, deadline_s, lambda standing, _: (table, len(standing.losses)), risk)
    if asked.loss is None or asked.deadline_s is None:
        return None
    predicted = _PredictedProblems(task, asked.loss, asked.deadline_s, options)
    return OnlineController(phases, asked.loss, asked.deadline_s, predicted, risk)


class _PredictedProblems:
    """Problems from the measured losses, by the predictor that the plan was made with."""

    def __init__(self, task: Task, target: float, deadline_s: float, options: Mapping[str, Any]) -> None:
        self._task, self._target, self._deadline_s = task, target, deadline_s
        self._predictor = load_predictor(
            str(options.get("predictor", "shipped")),
            options.get("bound"),
            bounds=bool(options.get("bounds", True)),
            bounds_from=options.get("bounds_from"),
        )
        self._classes = int(options.get("classes", 10))
        self._distill = bool(options.get("distill", False))
        self._set_classes = parse_set_classes(str(options.get("set_classes", "")))

    def __call__(self, standing: EpochStatus, here: Pair) -> tuple[Problem, int]:
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
        training = PlannedTraining(task, self._predictor, self._classes, self._set_classes, self._distill)
        problem = build_problem(training, seen[begun:], here, seen[:begun])
        return problem.model_copy(update={"time_step_s": max(problem.time_step_s, left_s / TIME_STEPS)}), 0
