"""What RightTrain and its rivals share: they plan how long to train, for a loss, at the least energy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from palmette.errors import Infeasible
from palmette.plan.core.strategy import Decision, Task
from palmette.spec.learning import Learning

if TYPE_CHECKING:
    from palmette.plan.righttrain.problem import Ground


@dataclass(frozen=True, kw_only=True)
class EpochPlanner(ABC):
    """A strategy that settles epochs and data by a learning curve. It minimises energy whatever the goal."""

    name: ClassVar[str]
    default_goal: ClassVar[str] = "energy"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = True

    learning: Learning = field(metadata={"help": "How the loss falls with epochs and data (JSON)."})

    def __post_init__(self) -> None:
        from palmette.plan.righttrain.optimum import branch_and_bound  # noqa: F401 -- imports are no part of plan_s

    def decide(self, task: Task) -> Decision:
        """The plan with the least energy.

        Raises:
            Infeasible: the loss, the deadline or a limit cannot be met.
        """
        from palmette.plan.righttrain.decision import refuse_loss
        from palmette.plan.righttrain.problem import ground

        self._refuse_labels_that_stay(task)
        numbers = ground(task, self.learning, self.feeds_a_source)
        refuse_loss(numbers)
        return self._decided(numbers)

    def _refuse_labels_that_stay(self, task: Task) -> None:
        """Trees of ever coarser groupings do not lead back to the sources."""
        for name, node in task.cluster.nodes.items():
            if node.source is not None and node.source.keeps_labels:
                told = f"nodes.{name}.source.private: labels: {self.name} does not lead samples back to their source"
                raise Infeasible(f"{told} for the last layer; hybrid and jointdnn do")

    @property
    def feeds_a_source(self) -> float:
        """Into so many parts, on average, a source may be split."""
        return 1.0

    @abstractmethod
    def _decided(self, ground: Ground) -> Decision:
        """The plan for a task's numbers."""
