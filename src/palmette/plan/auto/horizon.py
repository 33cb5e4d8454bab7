"""For how many epochs which of the compared plans is best.

The whole of E epochs is the first and E − 1 later ones, so the mean of an epoch is a straight line over 1 / E: by time
and by energy each plan is best for one range of epochs, if at all, and where two meet is found by halving. By other
goals a range may hide between two whose best plan is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from palmette.plan.auto.objective import PlanObjective, estimate_of
from palmette.spec.plan import Plan

_FARTHEST = 10**6
"""Epochs up to which the answer is followed."""
_EQUAL = 1 + 1e-9


@dataclass(frozen=True)
class BestFrom:
    """From this many epochs on, up to where the next one begins, a strategy's plan is best."""

    epochs: int
    strategy: str

    def as_json(self) -> dict[str, Any]:
        """As it stands in a decision."""
        return asdict(self)


def best_by_epochs(chosen: Plan, others: Sequence[Plan], objective: PlanObjective) -> list[BestFrom]:
    """Which plan is best from how many epochs on; of equals the chosen one, then the first."""
    rivals = [plan for plan in others if plan.strategy != chosen.strategy]

    def best(epochs: int) -> str:
        values = {plan.strategy: objective.over(plan, epochs) for plan in [chosen, *rivals]}
        least = min(values.values()) * _EQUAL
        return next(name for name, value in values.items() if value <= least)

    return [BestFrom(1, best(1)), *_changes(1, _FARTHEST, best)]


def depends_on_epochs(plans: Sequence[Plan]) -> bool:
    """Whether the first epoch of a plan differs from later ones."""
    return any(estimate_of(plan).first_epoch_s != estimate_of(plan).epoch_s for plan in plans)


def _changes(low: int, high: int, best: Callable[[int], str]) -> list[BestFrom]:
    """Where the best plan changes between two numbers of epochs."""
    if best(low) == best(high):
        return []
    if high - low == 1:
        return [BestFrom(high, best(high))]
    middle = (low + high) // 2
    return [*_changes(low, middle, best), *_changes(middle, high, best)]
