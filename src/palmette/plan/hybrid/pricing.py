"""Prices of plans, remembered and counted, and the objective that a goal makes of them."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from palmette.cost.delivery import keeps_samples
from palmette.cost.evaluate import Price
from palmette.cost.steady import UNTIL_STEADY
from palmette.cost.steps import Kind
from palmette.plan.core.choice import refuse_unknown
from palmette.plan.hybrid.paths import PathTree, SearchState, instance_tree
from palmette.plan.hybrid.problem import HybridProblem
from palmette.spec.goal import Quantity, value
from palmette.spec.plan import Phase


class Cost(NamedTuple):
    """What an iteration takes in the mean over the task's epochs, and its seconds in the steady state.

    Infinite where it is not known.
    """

    time_s: float
    energy_j: float
    steady_s: float
    money: float = math.inf
    carbon_g: float = math.inf

    def value(self, quantity: Quantity) -> float:
        """A quantity of a goal."""
        return value(quantity, self.time_s, self.energy_j, self.money, self.carbon_g)

    def is_no_worse(self, other: Cost) -> bool:
        """Whether no goal and no deadline would prefer another cost, unless they are about power."""
        return all(map(operator.le, self, other))


Score = tuple[float, float]  # seconds beyond the deadline, then what the goal minimises
WORST: Score = (math.inf, math.inf)
_EQUAL = 1 + 1e-10
_T = TypeVar("_T")
LONGEST_S = 120.0
"""A search by effort ends by then on a slow machine; its plan is then no longer decided by the seed alone."""


@dataclass(frozen=True)
class Objective:
    """What to minimise: quantities with weights, each over its unit, under deadlines if there are any.

    ``deadline_s`` is that of an iteration in the steady state, ``mean_deadline_s`` in the mean over all epochs.
    """

    weights: Mapping[Quantity, float]
    units: Mapping[Quantity, float] = field(default_factory=dict)
    deadline_s: float | None = None
    mean_deadline_s: float | None = None

    def score(self, cost: Cost | None) -> Score:
        """How good a cost is, less is better; a plan that may not run is worst."""
        if cost is None:
            return WORST
        late_s = _beyond_s(cost.steady_s, self.deadline_s) + _beyond_s(cost.time_s, self.mean_deadline_s)
        return late_s, self.value(cost)

    def value(self, cost: Cost) -> float:
        """The weighted sum."""
        return sum(weight * cost.value(name) / self.units.get(name, 1.0) for name, weight in self.weights.items())


def simplest_best(found: Sequence[_T], score: Callable[[_T], Score], size: Callable[[_T], int]) -> _T | None:
    """The best of what was found; of those that are as good but for rounding, the first of the smallest size."""
    if not found:
        return None
    late_s, value = min(map(score, found))
    most = (late_s * _EQUAL, value * _EQUAL)
    return min((each for each in found if all(map(operator.le, score(each), most))), key=size)


def _beyond_s(time_s: float, limit_s: float | None) -> float:
    """Seconds beyond a deadline."""
    return 0.0 if limit_s is None else max(0.0, time_s - limit_s)


class Pricer:
    """Prices states. ``spent`` is the effort so far, in operations played: the same on every machine."""

    def __init__(self, problem: HybridProblem) -> None:
        self.problem = problem
        self.spent = 0
        self.priced = 0
        self._known: dict[SearchState, Cost | None] = {}
        self._trees: dict[object, PathTree] = {}
        nodes = problem.task.cluster.nodes
        self._energy = {name: node.limits.energy_j for name, node in nodes.items() if node.limits.energy_j is not None}

    def cost(self, state: SearchState) -> Cost | None:
        """What a state's iteration costs with its samples delivered as well as may be; None where it may not run."""
        if state not in self._known:
            if all(map(self.problem.keeps_private, state.paths)):
                self._known[state] = self.delivered(self.phase(state))[1]
            else:
                self._known[state] = None
        return self._known[state]

    def best(self, objective: Objective) -> tuple[SearchState, Cost] | None:
        """The best of all states that were priced, whatever for; of equals the simplest. None where none may run."""
        priced = [(state, cost) for state, cost in self._known.items() if cost is not None]
        return simplest_best(priced, lambda known: objective.score(known[1]), lambda known: known[0].size)

    def phase(self, state: SearchState) -> Phase:
        """The phase of a state; how its samples are delivered is open."""
        shape = (state.plain, *[(path.source, path.runs, path.microbatch) for path in state.paths])
        tree = self._trees.get(shape)
        if tree is None:
            tree = self._trees[shape] = instance_tree(state, self.problem.cpu_shares, self.problem.codec)
        return self.problem.with_batch_norm(tree.phase(state))

    def delivered(self, phase: Phase) -> tuple[Phase, Cost | None]:
        """The phase with its samples delivered in the least time, and its cost; None where it may not run."""
        found = [(each, self.price(each)) for each in self.problem.deliveries(phase)]
        allowed = [(each, cost) for each, cost in found if cost is not None]
        return min(allowed, key=lambda each: each[1].time_s, default=(phase, None))

    def price(self, phase: Phase) -> Cost | None:
        """Time and energy of the iteration of a phase that fits; None where a limit forbids it.

        Raises:
            InputError: the goal needs something about a node that is not known.
        """
        prices = self.problem.task.evaluator
        price = prices.price(phase)
        self.spent += _played(phase, price)
        self.priced += 1
        for name in price.nodes if self._energy else ():
            spent_j = prices.node_energy_j(name, price.nodes[name], price.iteration_s)
            if spent_j is not None and spent_j > self._energy.get(name, math.inf):
                return None
        spent = prices.mean_iteration(price, self.problem.epochs)
        refuse_unknown(spent, price.nodes, self.problem.task)
        energy_j, money, carbon_g = (math.inf if each is None else each for each in spent[1:])
        return Cost(spent.time_s, energy_j, price.iteration_s, money, carbon_g)


def _played(phase: Phase, price: Price) -> int:
    """Operations that the clock has played for a price: several iterations where samples travel ahead."""
    (_, made, _) = price.played[0]
    sends = any(size and step.kind is Kind.DATA for step, size in zip(made.steps, made.size_bytes, strict=True))
    ahead = UNTIL_STEADY if phase.ahead else 1
    return len(made.steps) * ((ahead if sends else 1) + (ahead if keeps_samples(phase) else 0))


@dataclass
class Budget:
    """When to stop: at ``end_s`` if that is given, else after so much effort, and at ``latest_s`` anyway."""

    pricer: Pricer
    effort: int
    end_s: float | None = None
    latest_s: float = math.inf

    def part(self, share: float) -> Budget:
        """A share of what is left."""
        if self.end_s is not None:
            now = time.perf_counter()
            return Budget(self.pricer, self.effort, now + share * max(0.0, self.end_s - now), self.latest_s)
        spent = self.pricer.spent
        return Budget(self.pricer, spent + int(share * max(0, self.effort - spent)), None, self.latest_s)

    def left(self) -> bool:
        """Whether the search may go on."""
        if self.end_s is not None:
            return time.perf_counter() < self.end_s
        return self.pricer.spent < self.effort and time.perf_counter() < self.latest_s
