"""The best CPU shares of a mapped tree, judged by the evaluator.

The geometric program gives shares that are optimal where no transfers share a link and no calls overlap on a node; the
clock says whether they did. If so, the program is solved again with what the clock played, and the best is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from palmette.cost.check import forbidden, missing
from palmette.cost.evaluate import Price
from palmette.errors import Fault
from palmette.plan.core.choice import over_energy
from palmette.plan.righttrain.epochs import Schedule
from palmette.plan.righttrain.geometric_program import GAP, LEAST_SHARE, Program, fastest, glance_j, solved
from palmette.plan.righttrain.iteration_time import Model, model_of, program_of
from palmette.plan.righttrain.layout import Mapping, Part, parts_of, phase_of
from palmette.plan.righttrain.problem import Floats, Ground
from palmette.plan.righttrain.trees import Tree
from palmette.spec.plan import Phase

EFFORT = 30_000
"""What a search spends on going downhill."""
SMALL_EFFORT = 60_000
"""The same where few nodes compute."""
_ROUNDS = 4
_CLOSE = 1e-6


@dataclass(frozen=True)
class Candidate:
    """A tree, its mapping and which of its roots comes first."""

    tree: Tree
    mapping: Mapping
    schedule: Schedule
    home: int = 0


@dataclass(frozen=True)
class Found:
    """What a candidate costs in the whole training, by the evaluator."""

    candidate: Candidate
    shares: Floats
    total_s: float
    total_j: float


@dataclass(frozen=True)
class Relaxed:
    """A candidate as a program: every transfer alone on its way, no calls side by side."""

    model: Model
    program: Program
    sending_j: float


@dataclass
class Allocator:
    """Finds shares, and remembers what it has found."""

    ground: Ground
    most_effort: int = EFFORT
    priced: int = 0
    spent: int = 0
    """The effort so far: about the time it took, but the same on every machine."""
    _known: dict[Candidate, Found | None] = field(default_factory=dict)
    _relaxed: dict[Candidate, Relaxed | None] = field(default_factory=dict)
    _shares: dict[Candidate, Floats | None] = field(default_factory=dict)

    def bound_j(self, candidate: Candidate) -> float:
        """A lower bound of the joules of the whole training; infinite where it may not run, or not in time."""
        relaxed, shares = self.relaxed(candidate), self._best_shares(candidate)
        if relaxed is None or shares is None:
            return math.inf
        return candidate.schedule.iterations * (relaxed.program.value_j(shares) * (1 - GAP) + relaxed.sending_j)

    def glance_j(self, candidate: Candidate, prices_w: Sequence[float] = ()) -> float:
        """A lower bound that takes little time; infinite where it may not run, or not in time."""
        relaxed = self.relaxed(candidate)
        if relaxed is None:
            return math.inf
        at_least_j = glance_j(relaxed.program, (relaxed.program.idle_w, *prices_w)) + relaxed.sending_j
        return candidate.schedule.iterations * at_least_j * (1 - GAP)

    def least_s(self, candidate: Candidate) -> float:
        """A lower bound of the seconds of the whole training; infinite where it may not run."""
        relaxed = self.relaxed(candidate)
        if relaxed is None:
            return math.inf
        return candidate.schedule.iterations * relaxed.program.time_s(fastest(relaxed.program)) * (1 - GAP)

    def found(self, candidate: Candidate) -> Found | None:
        """The best shares of a candidate; None where it may not run, or not in time."""
        if candidate not in self._known:
            self._known[candidate] = self._find(candidate)
        return self._known[candidate]

    def with_full_cpus(self, candidate: Candidate) -> Found | None:
        """What a candidate costs with each node's CPU in even shares; None where it may not run."""
        relaxed = self.relaxed(candidate)
        if relaxed is None:
            return None
        shares = relaxed.program.even()
        return self._whole(candidate, self._price(candidate, shares), shares)

    def quick(self, candidate: Candidate) -> Found | None:
        """What a candidate costs with the quickest shares; None where it may not run."""
        relaxed = self.relaxed(candidate)
        if relaxed is None:
            return None
        shares, price = min(self._quick(candidate, relaxed), key=lambda tried: tried[1].iteration_s)
        return self._whole(candidate, price, shares)

    def late(self, found: Found) -> bool:
        """Whether it takes longer than the deadline."""
        most_s = self.ground.most_s(found.candidate.schedule) * found.candidate.schedule.iterations
        return found.total_s > most_s * (1 + 1e-12)

    def tired(self) -> bool:
        """Whether the effort is spent."""
        return self.spent > self.most_effort

    def over_limits(self, found: Found) -> list[Fault]:
        """The nodes that would use more energy than their limit."""
        return over_energy(self.phase(found.candidate, found.shares.tolist()), self.ground.task)

    def phase(self, candidate: Candidate, shares: Sequence[float]) -> Phase:
        """The phase of a candidate with its schedule."""
        return phase_of(self.ground, self._parts(candidate), shares, candidate.schedule)

    def _parts(self, candidate: Candidate) -> list[Part]:
        return parts_of(candidate.tree, candidate.mapping, candidate.home)

    def relaxed(self, candidate: Candidate) -> Relaxed | None:
        """The program of a candidate; None where it may not run."""
        if candidate not in self._relaxed:
            self._relaxed[candidate] = self._relax(candidate)
        return self._relaxed[candidate]

    def _relax(self, candidate: Candidate) -> Relaxed | None:
        ground, parts = self.ground, self._parts(candidate)
        evaluator = ground.task.evaluator
        phase = phase_of(ground, parts, [LEAST_SHARE] * len(parts))
        if any(missing(phase, evaluator)) or any(forbidden(phase, evaluator)):
            return None
        model = model_of(phase, evaluator, ground)
        self.spent += effort(len(model.after))
        most_s = ground.most_s(candidate.schedule)
        program = program_of(model, ground, parts, candidate.schedule.iterations, most_s)
        return Relaxed(model, program, sum(model.sending_j.values()))

    def _best_shares(self, candidate: Candidate) -> Floats | None:
        if candidate not in self._shares:
            relaxed = self.relaxed(candidate)
            self._shares[candidate] = None if relaxed is None else solved(relaxed.program)
        return self._shares[candidate]

    def _quick(self, candidate: Candidate, relaxed: Relaxed) -> list[tuple[Floats, Price]]:
        """The quickest shares with each transfer alone, and with transfers as the clock plays them."""
        shares = fastest(relaxed.program)
        tried = [(shares, self._price(candidate, shares))]
        if tried[0][1].iteration_s > relaxed.program.time_s(shares) * (1 + _CLOSE):
            played = relaxed.model.as_played(tried[0][1])
            shares = fastest(replace(relaxed.program, longest=played.longest))
            tried.append((shares, self._price(candidate, shares)))
        return tried

    def _find(self, candidate: Candidate) -> Found | None:
        relaxed, shares = self.relaxed(candidate), self._best_shares(candidate)
        if relaxed is None or shares is None:
            return None
        tried = []
        for _ in range(_ROUNDS):
            price = self._price(candidate, shares)
            tried.append((shares, price))
            if self._agrees(relaxed, shares, price):
                break
            again = self._corrected(relaxed, shares, price)
            if again is None:
                break
            shares = again
        wholes = [self._whole(candidate, price, shares) for shares, price in tried]
        if all(map(self.late, wholes)):
            wholes += [self._whole(candidate, price, shares) for shares, price in self._quick(candidate, relaxed)]
        allowed = [found for found in wholes if not self.late(found) and not self.over_limits(found)]
        return min(allowed, key=lambda found: found.total_j) if allowed else None

    def _whole(self, candidate: Candidate, price: Price, shares: Floats) -> Found:
        """Seconds and joules of the whole training."""
        assert price.iteration_j is not None, "the ground refuses unknown powers"
        many = candidate.schedule.iterations
        return Found(candidate, shares, many * price.iteration_s, many * price.iteration_j)

    def _price(self, candidate: Candidate, shares: Floats) -> Price:
        price = self.ground.task.evaluator.price(self.phase(candidate, shares.tolist()))
        self.priced += 1
        self.spent += effort(len(price.played[0][1].steps)) // 2
        return price

    def _agrees(self, relaxed: Relaxed, shares: Floats, price: Price) -> bool:
        """Whether the clock says what the program believes."""
        assert price.iteration_j is not None, "the ground refuses unknown powers"
        value_j = relaxed.program.value_j(shares) + relaxed.sending_j
        same_time = price.iteration_s <= relaxed.program.time_s(shares) * (1 + _CLOSE)
        return same_time and abs(price.iteration_j - value_j) <= _CLOSE * value_j

    def _corrected(self, relaxed: Relaxed, shares: Floats, price: Price) -> Floats | None:
        """The best shares if transfers and overlaps stay as the clock played them."""
        model, program = relaxed.model, relaxed.program
        effort_j = program.effort_j.copy()
        for members in program.nodes:
            own = list(members)
            believed = float((model.effort_s[own] * shares[own] ** (program.exponent[own] - 1)).sum())
            name = price.played[0][0].instances[own[0]].node
            if believed > 0:
                effort_j[own] *= price.nodes[name].effort_s / believed
        played = model.as_played(price)
        return solved(replace(program, effort_j=effort_j, longest=played.longest))


def effort(operations: int) -> int:
    """The effort of a program of so many operations: more than in proportion, since its matrices grow too."""
    return operations * max(60, operations) // 60
