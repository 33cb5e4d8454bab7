"""The optimum of RightTrain's problem, for small cases: the best that any strategy can reach.

Trees, mappings, data and CPU shares as in ``righttrain``, searched by branch and bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from palmette.errors import ArgumentFault, InputError
from palmette.plan.core.strategy import Decision
from palmette.plan.righttrain.epoch_planner import EpochPlanner

if TYPE_CHECKING:
    from palmette.plan.righttrain.problem import RightTrainProblem


@dataclass(frozen=True, kw_only=True)
class RightTrainOptimum(EpochPlanner):
    """The least energy of all trees, mappings, data and CPU shares."""

    name: ClassVar[str] = "righttrain-optimum"
    summary: ClassVar[str] = "the optimum of RightTrain's problem by branch and bound, for small cases"
    exhaustive: ClassVar[bool] = True

    effort: float = field(
        default=1.0,
        metadata={"help": "Search effort as a multiple of the default: more leaves a smaller gap, and takes longer."},
    )

    def __post_init__(self) -> None:
        if not 0 < self.effort < math.inf:
            raise InputError(ArgumentFault("effort", self.effort, "expected more than 0"))
        super().__post_init__()

    def _decide(self, problem: RightTrainProblem) -> Decision:
        """Search until the optimum is proven, or the effort is spent."""
        from palmette.plan.righttrain.decision import bounded_decision
        from palmette.plan.righttrain.optimum.branch_and_bound import BranchAndBound

        optimum = BranchAndBound(problem, self.effort)
        return bounded_decision(optimum.search, optimum.solve())
