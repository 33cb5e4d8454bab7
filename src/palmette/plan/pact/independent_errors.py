"""Robust estimates for the case that the errors of different epochs are independent.

Algorithm 1 adds up robust estimates, and so their safety margins (robust − expected), as if every epoch of a training
fell short at once. The margin of a sum of independent errors is the root of the sum of their squares. A path on the
graph can only add up, so all margins are scaled by one factor: the root over the sum along the cheapest schedule by
the expected estimates.
"""

from __future__ import annotations

import math
from dataclasses import replace

from palmette.errors import Infeasible
from palmette.plan.pact.actions import actions_of
from palmette.plan.pact.optimum import optimal_schedule
from palmette.spec.problem import Change, Problem, Run


def with_independent_errors(problem: Problem) -> Problem:
    """The problem with safety margins that add up to what independent errors need.

    Unchanged where no schedule reaches the target even by the expected estimates.
    """
    try:
        factor = _margin_factor(problem)
    except Infeasible:
        return problem
    runs = tuple(_scale_run(run, factor) for run in problem.run)
    changes = tuple(_scale_change(change, factor) for change in problem.change)
    return problem.model_copy(update={"run": runs, "change": changes})


def _margin_factor(problem: Problem) -> float:
    """√Σm² / Σm of the margins m along the cheapest schedule by the expected estimates; 1 where all are 0."""
    actions = actions_of(problem)
    chosen = optimal_schedule(problem, replace(actions, true=actions.expected)).actions
    difference = actions.robust - actions.expected
    margins = [max(0.0, float(difference[actions.row(epoch), action])) for epoch, action in enumerate(chosen)]
    return math.hypot(*margins) / sum(margins) if any(margins) else 1.0


def _scale_run(run: Run, factor: float) -> Run:
    expected, robust = run.loss_expected, run.loss_robust
    epochs = range(max(len(expected), len(robust)))
    both = ((expected[min(k, len(expected) - 1)], robust[min(k, len(robust) - 1)]) for k in epochs)
    return run.model_copy(update={"loss_robust": tuple(_scale(*pair, factor) for pair in both)})


def _scale_change(change: Change, factor: float) -> Change:
    return change.model_copy(update={"loss_robust": _scale(change.loss_expected, change.loss_robust, factor)})


def _scale(expected: float, robust: float, factor: float) -> float:
    return expected + factor * (robust - expected)
