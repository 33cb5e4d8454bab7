"""The best CPU shares of a mapped tree, checked by the evaluator.

The geometric program gives shares that are optimal where no transfers share a link and no calls overlap on a node. The
evaluator simulates both; where they occur, the program is solved again with the simulated times, and the best is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from palmette.cost.check import forbidden, missing
from palmette.cost.evaluate import Price
from palmette.errors import Fault
from palmette.plan.core.choice import over_energy
from palmette.plan.righttrain.cpu_shares import fastest_shares, optimal_shares
from palmette.plan.righttrain.epochs import Schedule
from palmette.plan.righttrain.geometric_program import GAP, LEAST_SHARE, GeometricProgram, quick_bound_j
from palmette.plan.righttrain.iteration_time import IterationModel, build_model, build_program
from palmette.plan.righttrain.layout import MappedInstance, Mapping, build_phase, mapped_instances
from palmette.plan.righttrain.problem import Floats, RightTrainProblem
from palmette.plan.righttrain.shared_calls import together_bound_j
from palmette.plan.righttrain.trees import GroupingTree
from palmette.spec.plan import Phase

EFFORT_BUDGET = 30_000
"""The effort that a search may spend on local search."""
SMALL_EFFORT_BUDGET = 45_000
"""The same where few nodes compute."""
_SOLVING_EFFORT = 10
"""The effort of solving a program, for each of its instances."""
_ROUNDS = 4
_CLOSE = 1e-6
_MAX_KNOWN = 20_000
"""Mapped trees whose operations are kept."""


@dataclass(frozen=True)
class MappedTree:
    """A candidate plan but for its shares: a tree, its mapping, its schedule and which root comes first."""

    tree: GroupingTree
    mapping: Mapping
    schedule: Schedule
    first_root: int = 0


@dataclass(frozen=True)
class EvaluatedPlan:
    """A mapped tree with CPU shares, and the evaluator's time and energy of the whole training."""

    candidate: MappedTree
    shares: Floats
    total_s: float
    total_j: float


@dataclass(frozen=True)
class Relaxation:
    """A mapped tree as a geometric program, without contention for links and CPUs."""

    model: IterationModel
    program: GeometricProgram
    sending_j: float


@dataclass(frozen=True)
class KnownTrees:
    """What is known about mapped trees whatever the deadline, for all searches of a problem."""

    models: dict[MappedTree, IterationModel | None] = field(default_factory=dict)
    """Their operations; None where they are infeasible."""
    fastest_shares: dict[MappedTree, Floats] = field(default_factory=dict)
    fastest_plans: dict[MappedTree, list[EvaluatedPlan]] = field(default_factory=dict)

    def forget_if_many(self) -> None:
        """Bound the memory: what is needed again is worked out again."""
        if len(self.models) > _MAX_KNOWN:
            for known in (self.models, self.fastest_shares, self.fastest_plans):
                known.clear()


@dataclass
class CpuAllocator:
    """Finds the best shares of mapped trees, cached. What it knows already counts as effort all the same."""

    problem: RightTrainProblem
    effort_budget: int = EFFORT_BUDGET
    known: KnownTrees = field(default_factory=KnownTrees)
    evaluations: int = 0
    effort: int = 0
    """The effort so far: roughly proportional to time, but the same on every machine."""
    _plans: dict[MappedTree, EvaluatedPlan | None] = field(default_factory=dict)
    _relaxations: dict[MappedTree, Relaxation | None] = field(default_factory=dict)
    _shares: dict[MappedTree, Floats | None] = field(default_factory=dict)

    def bound_j(self, candidate: MappedTree) -> float:
        """A lower bound of the joules of the whole training; infinite where it is infeasible or too slow."""
        relaxed, shares = self.relaxation(candidate), self._best_shares(candidate)
        if relaxed is None or shares is None:
            return math.inf
        return candidate.schedule.iterations * (relaxed.program.value_j(shares) * (1 - GAP) + relaxed.sending_j)

    def proven_j(self, candidate: MappedTree) -> float:
        """A tighter bound, for proofs: calls side by side on a node count together."""
        relaxed, bound_j = self.relaxation(candidate), self.bound_j(candidate)
        if relaxed is None or math.isinf(bound_j):
            return bound_j
        self._count_solving(relaxed)
        together_j = together_bound_j(relaxed.program, relaxed.model.instance_work_s)
        return max(bound_j, candidate.schedule.iterations * (together_j + relaxed.sending_j))

    def quick_bound_j(self, candidate: MappedTree, prices_w: Sequence[float] = ()) -> float:
        """A weaker bound that is quick to compute; infinite where it is infeasible or too slow."""
        relaxed = self.relaxation(candidate)
        if relaxed is None:
            return math.inf
        at_least_j = quick_bound_j(relaxed.program, (relaxed.program.idle_w, *prices_w)) + relaxed.sending_j
        return candidate.schedule.iterations * at_least_j * (1 - GAP)

    def min_time_s(self, candidate: MappedTree, below_s: float = math.inf) -> float:
        """A lower bound of the seconds of the whole training; infinite where it is infeasible.

        A weaker one is enough where it is not below ``below_s``.
        """
        relaxed = self.relaxation(candidate)
        if relaxed is None:
            return math.inf
        quick_s = candidate.schedule.iterations * relaxed.program.time_s(relaxed.program.full_shares()) * (1 - GAP)
        if quick_s >= below_s:
            return quick_s
        shares = self._fastest_shares(candidate, relaxed)
        return candidate.schedule.iterations * relaxed.program.time_s(shares) * (1 - GAP)

    def best_plan(self, candidate: MappedTree) -> EvaluatedPlan | None:
        """The plan with the best shares; None where it is infeasible or too slow."""
        if candidate not in self._plans:
            self._plans[candidate] = self._find_best_plan(candidate)
        return self._plans[candidate]

    def with_full_cpus(self, candidate: MappedTree) -> EvaluatedPlan | None:
        """The plan with each node's CPU in even shares; None where it is infeasible."""
        relaxed = self.relaxation(candidate)
        if relaxed is None:
            return None
        shares = relaxed.program.even_shares()
        return self._evaluated(candidate, self._price(candidate, shares), shares)

    def min_time_plan(self, candidate: MappedTree) -> EvaluatedPlan | None:
        """The plan with the fastest shares; None where it is infeasible."""
        relaxed = self.relaxation(candidate)
        if relaxed is None:
            return None
        return min(self._fastest_plans(candidate, relaxed), key=lambda tried: tried.total_s)

    def misses_deadline(self, found: EvaluatedPlan) -> bool:
        """Whether a plan takes longer than the deadline."""
        max_s = self.problem.max_iteration_s(found.candidate.schedule) * found.candidate.schedule.iterations
        return found.total_s > max_s * (1 + 1e-12)

    def effort_spent(self) -> bool:
        """Whether the effort budget is spent."""
        return self.effort > self.effort_budget

    def over_limits(self, found: EvaluatedPlan) -> list[Fault]:
        """The nodes that would exceed their energy limit."""
        return over_energy(self.phase(found.candidate, found.shares.tolist()), self.problem.task)

    def part_of_limits(self, found: EvaluatedPlan) -> float:
        """The largest part of its energy limit that a node uses; 0 where none has one."""
        evaluator, nodes = self.problem.task.evaluator, self.problem.task.cluster.nodes
        phase = self.phase(found.candidate, found.shares.tolist())
        epoch, limits = evaluator.price(phase).epoch, {name: node.limits.energy_j for name, node in nodes.items()}
        used = {name: evaluator.node_energy_j(name, part, epoch.time_s) or 0.0 for name, part in epoch.nodes.items()}
        parts = [(phase.epochs or 1) * each / limit for name, each in used.items() if (limit := limits[name])]
        return max(parts, default=0.0)

    def phase(self, candidate: MappedTree, shares: Sequence[float]) -> Phase:
        """The phase of a mapped tree with its schedule."""
        return build_phase(self.problem, self._instances(candidate), shares, candidate.schedule)

    def _instances(self, candidate: MappedTree) -> list[MappedInstance]:
        return mapped_instances(candidate.tree, candidate.mapping, candidate.first_root)

    def relaxation(self, candidate: MappedTree) -> Relaxation | None:
        """The geometric program of a mapped tree; None where it is infeasible."""
        if candidate not in self._relaxations:
            self._relaxations[candidate] = self._build_relaxation(candidate)
        return self._relaxations[candidate]

    def _build_relaxation(self, candidate: MappedTree) -> Relaxation | None:
        problem, mapped, models = self.problem, self._instances(candidate), self.known.models
        if candidate not in models:
            self.known.forget_if_many()
            models[candidate] = self._build_model(candidate, mapped)
        model = models[candidate]
        if model is None:
            return None
        self.effort += search_effort(len(model.predecessors))
        max_s = problem.max_iteration_s(candidate.schedule)
        program = build_program(model, problem, mapped, candidate.schedule.iterations, max_s)
        return Relaxation(model, program, sum(model.sending_j.values()))

    def _build_model(self, candidate: MappedTree, mapped: Sequence[MappedInstance]) -> IterationModel | None:
        evaluator = self.problem.task.evaluator
        phase = build_phase(self.problem, mapped, [LEAST_SHARE] * len(mapped), candidate.schedule)
        if any(missing(phase, evaluator)) or any(forbidden(phase, evaluator)):
            return None
        return build_model(phase, evaluator, self.problem)

    def _best_shares(self, candidate: MappedTree) -> Floats | None:
        if candidate not in self._shares:
            relaxed = self.relaxation(candidate)
            self._shares[candidate] = None if relaxed is None else self._solved(relaxed)
        return self._shares[candidate]

    def _solved(self, relaxed: Relaxation) -> Floats | None:
        self._count_solving(relaxed)
        return optimal_shares(relaxed.program)

    def _count_solving(self, relaxed: Relaxation) -> None:
        self.effort += _SOLVING_EFFORT * len(relaxed.program.dynamic_j)

    def _fastest_shares(self, candidate: MappedTree, relaxed: Relaxation) -> Floats:
        """The fastest shares without contention."""
        self._count_solving(relaxed)
        known = self.known.fastest_shares
        if candidate not in known:
            known[candidate] = fastest_shares(relaxed.program)
        return known[candidate]

    def _fastest_plans(self, candidate: MappedTree, relaxed: Relaxation) -> list[EvaluatedPlan]:
        """The plans with the fastest shares without contention, and with transfers as simulated."""
        known, shares = self.known.fastest_plans, self._fastest_shares(candidate, relaxed)
        if candidate in known:
            self._count_pricing(relaxed, len(known[candidate]))
            return known[candidate]
        price = self._price(candidate, shares)
        tried = [self._evaluated(candidate, price, shares)]
        if price.iteration_s > relaxed.program.time_s(shares) * (1 + _CLOSE):
            played = relaxed.model.as_simulated(price)
            shares = fastest_shares(replace(relaxed.program, critical_path=played.critical_path))
            tried.append(self._evaluated(candidate, self._price(candidate, shares), shares))
        known[candidate] = tried
        return tried

    def _find_best_plan(self, candidate: MappedTree) -> EvaluatedPlan | None:
        relaxed, shares = self.relaxation(candidate), self._best_shares(candidate)
        if relaxed is None or shares is None:
            return None
        tried = []
        for _ in range(_ROUNDS):
            price = self._price(candidate, shares)
            tried.append((shares, price))
            if self._matches_simulation(relaxed, shares, price):
                break
            corrected = self._solve_as_simulated(relaxed, shares, price)
            if corrected is None:
                break
            shares = corrected
        plans = [self._evaluated(candidate, price, shares) for shares, price in tried]
        if all(map(self.misses_deadline, plans)):
            plans += self._fastest_plans(candidate, relaxed)
        allowed = [found for found in plans if not self.misses_deadline(found) and not self.over_limits(found)]
        return min(allowed, key=lambda found: found.total_j) if allowed else None

    def _evaluated(self, candidate: MappedTree, price: Price, shares: Floats) -> EvaluatedPlan:
        """A plan with seconds and joules of the whole training."""
        assert price.iteration_j is not None, "build_problem refuses unknown powers"
        many = candidate.schedule.iterations
        return EvaluatedPlan(candidate, shares, many * price.iteration_s, many * price.iteration_j)

    def _price(self, candidate: MappedTree, shares: Floats) -> Price:
        price = self.problem.task.evaluator.price(self.phase(candidate, shares.tolist()))
        self.evaluations += 1
        self.effort += search_effort(len(price.played[0][1].steps)) // 2
        return price

    def _count_pricing(self, relaxed: Relaxation, times: int) -> None:
        self.evaluations += times
        self.effort += times * (search_effort(len(relaxed.model.predecessors)) // 2)

    def _matches_simulation(self, relaxed: Relaxation, shares: Floats, price: Price) -> bool:
        """Whether the evaluator agrees with the program."""
        assert price.iteration_j is not None, "build_problem refuses unknown powers"
        value_j = relaxed.program.value_j(shares) + relaxed.sending_j
        same_time = price.iteration_s <= relaxed.program.time_s(shares) * (1 + _CLOSE)
        return same_time and abs(price.iteration_j - value_j) <= _CLOSE * value_j

    def _solve_as_simulated(self, relaxed: Relaxation, shares: Floats, price: Price) -> Floats | None:
        """The best shares if contention stays as simulated."""
        model, program = relaxed.model, relaxed.program
        dynamic_j = program.dynamic_j.copy()
        for members in program.nodes:
            own = list(members)
            predicted = float((model.instance_work_s[own] * shares[own] ** (program.exponent[own] - 1)).sum())
            name = price.played[0][0].instances[own[0]].node
            if predicted > 0:
                dynamic_j[own] *= price.nodes[name].effort_s / predicted
        played = model.as_simulated(price)
        return optimal_shares(replace(program, dynamic_j=dynamic_j, critical_path=played.critical_path))


def search_effort(operations: int) -> int:
    """The effort of a program of so many operations: superlinear, since its matrices grow too."""
    return operations * max(60, operations) // 60
