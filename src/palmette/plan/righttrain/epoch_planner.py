"""What RightTrain, its optimum and split learning share: they plan epochs for a loss, at the least energy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from palmette.errors import Infeasible
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.spec.codec_term import Coding
from palmette.spec.learning import Factor, Learning

if TYPE_CHECKING:
    from palmette.plan.righttrain.problem import RightTrainProblem


@dataclass(frozen=True, kw_only=True)
class EpochPlanner(Strategy, ABC):
    """A strategy that plans epochs and data by a learning curve. It minimises energy whatever the goal."""

    name: ClassVar[str]
    default_goal: ClassVar[str] = "energy"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = True

    learning: Learning = field(metadata={"help": "The learning curve: how the loss falls with epochs and data (JSON)."})

    def __post_init__(self) -> None:
        from palmette.plan.righttrain.optimum import branch_and_bound  # noqa: F401 -- importing is not part of plan_s

    def decide(self, task: Task) -> Decision:
        """The plan with the least energy.

        Raises:
            InputError: the learning curve does not know what its plans would change.
            Infeasible: the loss, the deadline or a limit cannot be met.
        """
        from palmette.plan.righttrain.decision import check_loss
        from palmette.plan.righttrain.problem import build_problem

        self.learning.refuse_unknown(task.profile.model, self._fixed(task))
        self._refuse_private_labels(task)
        numbers = build_problem(task, self._curve(task), self.feeds_per_source)
        check_loss(numbers)
        return self._decide(numbers)

    def _curve(self, task: Task) -> Learning:
        """The learning curve, with the cost of coded gradients where these were asked for."""
        coded = [Coding("gradients", task.exchange.argument)] if task.exchange.kind.lossy else []
        return self.learning.coded(task.profile.model, coded)

    def _refuse_private_labels(self, task: Task) -> None:
        """Refuse labels that stay at their source: these trees end at one node for the last layer."""
        for name, node in task.cluster.nodes.items():
            if node.source is not None and node.source.keeps_labels:
                refused = f"nodes.{name}.source.private: labels: {self.name} does not return samples to their source"
                raise Infeasible(f"{refused} for the last layer; hybrid and jointdnn do")

    def _fixed(self, task: Task) -> Mapping[Factor, float]:
        """What all of its plans have in common, of what the loss depends on."""
        return {}

    @property
    def feeds_per_source(self) -> float:
        """The most feeds per source, on average."""
        return 1.0

    @abstractmethod
    def _decide(self, problem: RightTrainProblem) -> Decision:
        """The decision for a problem."""
