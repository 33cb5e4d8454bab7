"""How reserves add up: what robust estimates keep for errors, where the errors of different epochs are independent.

Algorithm 1 adds up robust estimates, and so their reserves (robust − expected), as if every epoch of a training fell
short at once. The reserve of a sum of independent errors is the root of the sum of their squares. A path on the graph
can only add up, so all reserves are narrowed by one factor: that by which the sum overstates the root along the
cheapest schedule by the expected estimates.
"""

from __future__ import annotations

import math
from dataclasses import replace

from palmette.errors import Infeasible
from palmette.plan.pact.actions import moves_of
from palmette.plan.pact.optimum import optimum
from palmette.spec.problem import Change, Problem, Run


def with_independent_errors(problem: Problem) -> Problem:
    """The problem with reserves that add up to what independent errors need.

    The same problem, where no schedule reaches the target even by the expected estimates.
    """
    try:
        factor = _root_of_sum(problem)
    except Infeasible:
        return problem
    runs = tuple(_narrowed_run(run, factor) for run in problem.run)
    changes = tuple(_narrowed_change(change, factor) for change in problem.change)
    return problem.model_copy(update={"run": runs, "change": changes})


def _root_of_sum(problem: Problem) -> float:
    """√Σm² / Σm of the reserves m along the cheapest schedule by the expected estimates; 1 where there are none."""
    moves = moves_of(problem)
    chosen = optimum(problem, replace(moves, true=moves.expected)).moves
    over = moves.robust - moves.expected
    reserves = [max(0.0, float(over[moves.row(epoch), move])) for epoch, move in enumerate(chosen)]
    return math.hypot(*reserves) / sum(reserves) if any(reserves) else 1.0


def _narrowed_run(run: Run, factor: float) -> Run:
    expected, robust = run.loss_expected, run.loss_robust
    epochs = range(max(len(expected), len(robust)))
    both = ((expected[min(k, len(expected) - 1)], robust[min(k, len(robust) - 1)]) for k in epochs)
    return run.model_copy(update={"loss_robust": tuple(_narrowed(*pair, factor) for pair in both)})


def _narrowed_change(change: Change, factor: float) -> Change:
    return change.model_copy(update={"loss_robust": _narrowed(change.loss_expected, change.loss_robust, factor)})


def _narrowed(expected: float, robust: float, factor: float) -> float:
    return expected + factor * (robust - expected)
