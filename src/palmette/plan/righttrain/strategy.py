"""RightTrain: the least energy that meets a deadline and a loss.

It decides jointly on the instance tree, the nodes, the shares of data and CPUs, and the epochs: trees in the order of
their lower bounds, each mapped by a delay-aware Steiner tree on the expanded graph, then the CPU shares by a geometric
program.

    Francesco Malandrino, Carla Fabiana Chiasserini, Giuseppe Di Giacomo: Energy-efficient Training of Distributed DNNs
    in the Mobile-edge-cloud Continuum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from palmette.errors import ArgumentFault, InputError
from palmette.plan.core.strategy import Decision
from palmette.plan.righttrain.epoch_planner import EpochPlanner
from palmette.plan.righttrain.optimum.strategy import RightTrainOptimum
from palmette.plan.righttrain.split_learning import SplitLearning

if TYPE_CHECKING:
    from palmette.plan.righttrain.problem import RightTrainProblem


@dataclass(frozen=True, kw_only=True)
class RightTrain(EpochPlanner):
    """Any instance tree, with shares of CPUs and of the data."""

    name: ClassVar[str] = "righttrain"
    summary: ClassVar[str] = "any instance tree, CPU shares and data; the least energy for a deadline and a loss"

    first: bool = field(default=False, metadata={"help": "Stop at the first feasible tree, as in the paper."})
    alone: bool = field(
        default=False, metadata={"help": "Do not ask other strategies for better plans, which takes longer."}
    )
    alpha: float = field(default=1.0, metadata={"help": "The most instances of a layer per source."})
    epsilon: float = field(
        default=0.1, metadata={"help": "Relative error of restricted shortest paths; 0 for exact paths."}
    )

    def __post_init__(self) -> None:
        if not 1 <= self.alpha <= 4:
            raise InputError(ArgumentFault("alpha", self.alpha, "expected at least 1 and at most 4"))
        if not 0 <= self.epsilon <= 10:
            raise InputError(ArgumentFault("epsilon", self.epsilon, "expected at least 0 and at most 10"))
        super().__post_init__()

    @property
    def feeds_per_source(self) -> float:
        """α."""
        return self.alpha

    def _decide(self, problem: RightTrainProblem) -> Decision:
        """Search, and state the gap to the lower bound."""
        from palmette.plan.righttrain.deadlines import DeadlineSearch
        from palmette.plan.righttrain.decision import bounded_decision

        searches = DeadlineSearch(problem, self.epsilon or None, ask_others=not self.alone)
        found = searches.first_feasible() if self.first else searches.best()
        return bounded_decision(searches.search, found)


STRATEGIES = (RightTrain, RightTrainOptimum, SplitLearning)
