"""The optimum of RightTrain's problem, as the rival that nothing can beat: for small cases.

Trees, mappings, data and CPU as in ``righttrain``, searched by branch and bound with valid bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from palmette.plan.strategy import Decision, Task
from palmette.spec.learning import Learning


@dataclass(frozen=True, kw_only=True)
class RightTrainOptimum:
    """The least energy of all trees, mappings, data and CPU shares. It minimises energy whatever the goal."""

    name: ClassVar[str] = "righttrain-optimum"
    summary: ClassVar[str] = "the optimum of RightTrain's problem by branch and bound, for small cases"
    default_goal: ClassVar[str] = "energy"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = True

    learning: Learning = field(metadata={"help": "How the loss falls with epochs and data (JSON)."})

    def __post_init__(self) -> None:
        from palmette.plan.righttrain_search import exact  # noqa: F401 -- imports are no part of plan_s

    def decide(self, task: Task) -> Decision:
        """Search to the end."""
        from palmette.plan.righttrain_search.exact import Optimum
        from palmette.plan.righttrain_search.ground import ground
        from palmette.plan.righttrain_search.verdict import decision, refuse_loss

        numbers = ground(task, self.learning)
        refuse_loss(numbers)
        optimum = Optimum(numbers)
        return decision(optimum.search, optimum.outcome())


STRATEGIES = (RightTrainOptimum,)
