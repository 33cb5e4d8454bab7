"""The search for all goals at once: stages for time, energy and what lies between, the same whatever is asked.

What is asked for then picks from everything that any stage has priced. So with the same seed and effort a deadline
never improves the answer, nor does a tighter one, and nobody's plan uses less energy than that of the goal energy:

    time ─▶ energy ─▶ energy × time ─▶ energy under deadlines between the two ─▶ power        one goal or another
      └────────┴──────────┴──────────────────────┴─────────────────────────────────┴───▶ all prices ─▶ the best for it
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from palmette.plan.hybrid.descent import Descent, simplest
from palmette.plan.hybrid.paths import State
from palmette.plan.hybrid.pricing import LONGEST_S, Budget, Cost, Judge, Objective
from palmette.plan.hybrid.problem import World
from palmette.plan.hybrid.quick_bound import Quick
from palmette.plan.hybrid.starts import rivals, starts
from palmette.spec.goal import Quantity, value
from palmette.spec.plan import Phase

EFFORT, EFFORT_A_NODE, EFFORT_A_SOURCE, MOST_EFFORT = 30_000, 8_000, 10_000, 450_000
"""What a search may spend, in operations played on the event clock: more for each node and each source, up to what a
person waits for."""
_LOOKED_AT = 48  # starts of a stage
TIME, ENERGY, PRODUCT, POWER = (
    Objective({"time": 1.0}),
    Objective({"energy": 1.0}),
    Objective({"edp": 1.0}),
    Objective({"power": 1.0}),
)
_SHARES = {"time": 0.35, "energy": 0.3, "between": 0.3, "power": 0.05}
_RUNGS = (0.33, 0.67)  # deadlines between the fastest plan and the most frugal one, in equal ratios


class Found(NamedTuple):
    """A plan: where it comes from, its phase and its cost."""

    name: str
    phase: Phase
    cost: Cost


class Search:
    """A search in one world; ``judge`` knows all prices."""

    def __init__(self, world: World, *, needs_energy: bool, seconds: float | None, effort: float) -> None:
        self._world, self._seconds = world, seconds
        self._end_s: float | None = None
        self._latest_s = math.inf
        most = EFFORT + EFFORT_A_NODE * len(world.shares) + EFFORT_A_SOURCE * len(world.samples)
        self._most = round(effort * min(most, MOST_EFFORT))
        self.judge, self._quick = Judge(world, needs_energy), Quick(world)
        self._rivals = {name: world.normalised(phase) for name, phase in rivals(world).items()}
        self._both = world.knows_powers
        self._states = starts(world, self._rivals, self._quick, [TIME, ENERGY] if self._both else [TIME])
        self._priced = [
            Found(name, phase, cost)
            for name, phase in self._rivals.items()
            if (cost := self.judge.price(phase)) is not None
        ]

    def run(self) -> None:
        """Search for each objective of the family, every stage from the best that those before have found."""
        began, done = time.perf_counter(), 0.0
        self._end_s = None if self._seconds is None else began + self._seconds
        self._latest_s = began + LONGEST_S
        likely = {state: self._quick.likely(state) for state in self._states}
        for number, (objective, share) in enumerate(self._family()):
            done += share
            ranked = sorted(self._states, key=lambda state: objective.score(likely[state]))[:_LOOKED_AT]
            known = self.judge.best(objective)
            draw = random.Random(f"{self._world.task.seed} {number}")  # noqa: S311 -- no secret
            descent = Descent(self.judge, self._quick, objective, self._budget(share, done), draw)
            descent.run([*([known[0]] if known else []), *ranked])

    def _family(self) -> Iterator[tuple[Objective, float]]:
        """Objectives, each with its share of the effort; those between are known once both ends are."""
        if not self._both:
            yield TIME, 1.0
            return
        yield TIME, _SHARES["time"]
        yield ENERGY, _SHARES["energy"]
        between = [PRODUCT, *(Objective({"energy": 1.0}, deadline_s=limit_s) for limit_s in self._rungs())]
        yield from ((objective, _SHARES["between"] / len(between)) for objective in between)
        yield POWER, _SHARES["power"]

    def _rungs(self) -> list[float]:
        fastest, frugal = self.judge.best(TIME), self.judge.best(ENERGY)
        if fastest is None or frugal is None or not 0 < fastest[1][0] < frugal[1][0]:
            return []
        low_s, high_s = fastest[1][0], frugal[1][0]
        return [low_s * (high_s / low_s) ** rung for rung in _RUNGS]

    def _budget(self, share: float, done: float) -> Budget:
        """What a stage may spend: of the effort, all that the stages up to it have left; of the time, its share."""
        if self._end_s is None:
            return Budget(self.judge, round(done * self._most), None, self._latest_s)
        now = time.perf_counter()
        part = share / max(share, 1.0 - done + share)
        return Budget(self.judge, 0, now + part * max(0.0, self._end_s - now))

    def best(self, objective: Objective) -> Found | None:
        """The best plan of all that were priced; None where nothing may run."""
        found = list(self._priced)
        known = self.judge.best(objective)
        if known is not None:
            state = simplest(self.judge, objective, known[0], self._world)
            found.append(Found("search", self.judge.phase(state), self._cost(state)))
        return min(found, key=lambda each: objective.score(each.cost), default=None)

    def least(self, quantity: Quantity) -> float:
        """The least value of a quantity among all plans that were priced."""
        found = self.best(Objective({quantity: 1.0}))
        return math.inf if found is None else value(quantity, *found.cost)

    def _cost(self, state: State) -> Cost:
        cost = self.judge.cost(state)
        assert cost is not None, "the search keeps only states that may run"
        return cost
