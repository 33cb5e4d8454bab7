"""What a strategy is: it is given a task and decides who computes what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.cost.memory import Optimizer, known_optimizer
from palmette.spec.cluster import Cluster
from palmette.spec.goal import Goal
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a planner is asked: batch, goal, and the profile and the cluster if there are any."""

    profile: Profile | None = None
    cluster: Cluster | None = None
    batch: int = 32
    goal: Goal = field(default_factory=Goal)
    optimizer: Optimizer = "sgd"
    seed: int = 0

    def __post_init__(self) -> None:
        known_optimizer(self.optimizer)


@dataclass(frozen=True, kw_only=True)
class Task(Ask):
    """What to plan: training the profile's model on the cluster, in batches, towards a goal."""

    profile: Profile = field()
    cluster: Cluster = field()

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator that prices this task's plans."""
        return evaluator(self.profile, self.cluster, self.optimizer)


@dataclass(frozen=True)
class Decision:
    """What a strategy decided: the phases of a plan, and its own variables for ``plan.json``.

    Without a profile there may be no phases. ``model`` and ``batch`` are those of the strategy's own table, if
    it names them.
    """

    phases: tuple[Phase, ...]
    variables: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    batch: int | None = None


class Strategy(Protocol):
    """Makes plans. A frozen dataclass: its fields are its options, ``metadata["help"]`` says what they do.

    A field whose type is a document of ``spec`` is a file on the command line. Others ask for the traits of a strategy,
    never for its name; those with a default need not be given by a class that inherits from this one.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    default_goal: ClassVar[str]
    plans_epochs: ClassVar[bool]
    """Whether it decides how long to train, and so can obey a deadline and a loss."""
    needs_profile: ClassVar[bool]
    """Whether it needs profile and cluster; one that has its own table may be given an ``Ask``."""
    composed: ClassVar[bool] = False
    """Whether it chooses among the plans of all others, so that comparing it with them says nothing."""
    starts_from_others: ClassVar[bool] = False
    """Whether it searches on from the plans of others, and so is never one that another starts from."""
    uses_one_node: ClassVar[bool] = False
    """Whether it puts the whole network on one node, so that a search that tries every node need not ask it."""
    plans_quickly: ClassVar[bool] = False
    """Whether it plans within milliseconds, so that it can be asked again for many clusters."""
    decides_online: ClassVar[bool] = False
    """Whether it is asked again after every epoch of a run, with the loss and the time that were measured."""

    def decide(self, task: Task) -> Decision:
        """Decide who computes what.

        Raises:
            InputError: the task lacks something that this strategy needs.
            Infeasible: no plan of this strategy can meet the goal.
        """
        ...
