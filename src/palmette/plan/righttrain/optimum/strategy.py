"""The optimum of RightTrain's problem, for small cases: the best that any strategy can reach.

Trees, mappings, data and CPU shares as in ``righttrain``, searched by branch and bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from palmette.plan.core.strategy import Decision
from palmette.plan.righttrain.epoch_planner import EpochPlanner

if TYPE_CHECKING:
    from palmette.plan.righttrain.problem import RightTrainProblem


@dataclass(frozen=True, kw_only=True)
class RightTrainOptimum(EpochPlanner):
    """The least energy of all trees, mappings, data and CPU shares."""

    name: ClassVar[str] = "righttrain-optimum"
    summary: ClassVar[str] = "the optimum of RightTrain's problem by branch and bound, for small cases"

    def _decide(self, problem: RightTrainProblem) -> Decision:
        """Search until the optimum is proven."""
        from palmette.plan.righttrain.decision import bounded_decision
        from palmette.plan.righttrain.optimum.branch_and_bound import BranchAndBound

        optimum = BranchAndBound(problem)
        return bounded_decision(optimum.search, optimum.solve())
