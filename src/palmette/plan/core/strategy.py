"""What a strategy is: it is given a task and decides who computes what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.cost.optimizer import OptimizerCost, known_optimizer
from palmette.errors import ArgumentFault, Fault, InputError
from palmette.plan.core.tensor_input import cluster_of_tensors, profile_of_tensors
from palmette.spec.cluster import Cluster
from palmette.spec.exchange import PLAIN_EXCHANGE, Exchange
from palmette.spec.goal import Goal
from palmette.spec.learning_rate import LearningRateSchedule
from palmette.spec.plan import InputAs, Phase, known_input_as
from palmette.spec.profile import Profile

HORIZON_EPOCHS = 10
"""Over how many epochs plans are weighed where nobody says how long they will be used."""
MOST_EPOCHS = 10**9


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What a planner is asked: batch, goal, and the profile and the cluster if there are any.

    ``epochs`` is how long the plan will be used. With ``robust``, links that vary count as what they reach for that
    share of the time. With ``input_as`` tensor, profile and cluster say nothing about stored samples. ``exchange`` is
    how gradients of replicas travel; with ``overlap``, during backward where that is faster. ``progress`` is told what
    is being done, and how far it is, from 0 to 1; it belongs to this process. ``schedule`` is how the recipe
    changes the learning rate, None where nobody says it.
    """

    profile: Profile | None = None
    cluster: Cluster | None = None
    batch: int = 32
    goal: Goal = field(default_factory=Goal)
    optimizer: str | OptimizerCost = "sgd"
    seed: int = 0
    epochs: int | None = None
    input_as: InputAs = "stored"
    exchange: Exchange = PLAIN_EXCHANGE
    overlap: bool = False
    robust: float | None = None
    schedule: LearningRateSchedule | None = None
    progress: Callable[[str, float], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        known_optimizer(self.optimizer)
        known_input_as(self.input_as)
        refuse_epochs(self.epochs, self.goal)
        refuse_unpriced(self.goal, self.cluster)
        if self.robust is not None and not 0 < self.robust < 1:
            raise InputError(
                ArgumentFault("robust", self.robust, "expected a share of the time between 0 and 1, such as 0.9")
            )
        if self.input_as == "tensor" and self.profile is not None:
            object.__setattr__(self, "profile", profile_of_tensors(self.profile))
        if self.input_as == "tensor" and self.cluster is not None:
            object.__setattr__(self, "cluster", cluster_of_tensors(self.cluster))

    def tell(self, what: str, done: float) -> None:
        """Say what is being done, and how far it is, where anybody wants to know."""
        if self.progress is not None:
            self.progress(what, done)

    @property
    def state_copies(self) -> int:
        """How many numbers the optimizer keeps for each weight."""
        return known_optimizer(self.optimizer).state_copies

    @property
    def horizon(self) -> int:
        """The epochs over which plans are weighed."""
        return HORIZON_EPOCHS if self.epochs is None else self.epochs


def refuse_epochs(epochs: int | None, goal: Goal | None = None) -> None:
    """Refuse a number of epochs that is none, and one beside a loss, which decides how many there are.

    Raises:
        InputError: says so.
    """
    if epochs is None:
        return
    if not 1 <= epochs <= MOST_EPOCHS:
        raise InputError(ArgumentFault("epochs", epochs, f"expected at least 1 and at most {MOST_EPOCHS}"))
    if goal is not None and goal.loss is not None:
        raise InputError(ArgumentFault("epochs", epochs, "the loss decides how long to train; expected one of both"))


def refuse_unpriced(goal: Goal, cluster: Cluster | None) -> None:
    """Refuse a goal of money where no node has a price, and one of carbon where no intensity is known.

    Raises:
        InputError: says so.
    """
    if cluster is None:
        return
    if "cost" in goal.weights and cluster.currency is None:
        expected = f"the goal {goal} needs a price of at least one, such as price: 0.4 EUR/h"
        raise InputError(Fault("nodes", "no price", expected))
    if "carbon" in goal.weights and all(cluster.carbon_of(name) is None for name in cluster.nodes):
        expected = f"the goal {goal} needs one of the cluster or of each, such as carbon: 300 g/kWh"
        raise InputError(Fault("nodes", "no carbon", expected))


@dataclass(frozen=True, kw_only=True)
class Task(PlanRequest):
    """What to plan: training the profile's model on the cluster, in batches, towards a goal."""

    profile: Profile = field()
    cluster: Cluster = field()

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator that prices this task's plans."""
        return evaluator(self.profile, self.cluster, self.optimizer, self.exchange)


@dataclass(frozen=True)
class Decision:
    """What a strategy decided: the phases of a plan, and its own variables for ``plan.json``.

    Without a profile there may be no phases. ``model`` and ``batch`` are those of the strategy's own table, if
    it names them. ``warnings`` are what a user should know, where the strategy knows more than the price tells.
    """

    phases: tuple[Phase, ...]
    variables: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    batch: int | None = None
    warnings: tuple[str, ...] | None = None


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
    """Whether it needs profile and cluster; one that has its own table may be given a ``PlanRequest``."""
    composed: ClassVar[bool] = False
    """Whether it chooses among the plans of all others, so that comparing it with them says nothing."""
    starts_from_others: ClassVar[bool] = False
    """Whether it searches on from the plans of others, and so is never one that another starts from."""
    uses_one_node: ClassVar[bool] = False
    """Whether it puts the whole network on one node, so that a search that tries every node need not ask it."""
    changes_nodes: ClassVar[bool] = False
    """Whether its plans have phases on different nodes, so that one of them is no plan for the whole training."""
    trains_apart: ClassVar[bool] = False
    """Whether replicas of its plans train apart, so that only a learning curve says what its plans are worth."""
    exhaustive: ClassVar[bool] = False
    """Whether it goes through all plans of a kind, which takes long, where another strategy searches among them."""
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
