"""Algorithms 1 to 3 to the letter, vertex by vertex, from a problem's document alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

Plain = dict[str, Any]
Pair = tuple[str, str]


class Vertex(NamedTuple):
    """Epochs done, the pair in use, and loss and time as multiples of the resolutions."""

    epochs: int
    pair: Pair
    loss: int
    time: int


class Way(NamedTuple):
    """Joules, and sums of the expected and the robust changes of the loss."""

    energy_j: float
    expected: float = 0.0
    robust: float = 0.0

    def after(self, other: Way) -> Way:
        return Way(self.energy_j + other.energy_j, self.expected + other.expected, self.robust + other.robust)


class LiteralGraph:
    """The expanded graph of a problem; loss and time are rounded up at every action."""

    def __init__(self, problem: Plain) -> None:
        self.problem = problem
        self.runs = {(run["model"], run["nodes"]): run for run in problem["run"]}
        self.changes = {(tuple(change["from"]), tuple(change["to"])): change for change in problem["change"]}
        self.target = math.floor(problem["target_loss"] / problem["loss_step"] + 1e-9)
        self.deadline = math.floor(problem["deadline_s"] / problem["time_step_s"] + 1e-9)
        self.known: dict[tuple[Vertex, str | None], Way] = {}

    def scores(self) -> dict[Pair, tuple[float, float, float]]:
        """For each first action weight, opportunity and Wr (0 where there is no way)."""
        start = self.problem["start"]
        here, found = (start["model"], start["nodes"]), {}
        for vertex, first in self.actions(0, here, start["loss"], 0.0):
            whole = self.cheapest(vertex, None).after(first)
            if whole.energy_j < math.inf:
                back = self.cheapest(vertex, start["model"]).energy_j
                opportunity = max(1.0, whole.expected / whole.robust) if whole.robust < 0 else 1.0
                found[vertex.pair] = (whole.energy_j, opportunity, 0.0 if back == math.inf else back)
        return found

    def cheapest(self, vertex: Vertex, by: str | None) -> Way:
        """The cheapest way from a vertex to the target, by a model if one is named."""
        by = None if vertex.pair[0] == by else by
        if by is None and vertex.loss <= self.target:
            return Way(0.0)
        if (vertex, by) not in self.known:
            loss, time_s = vertex.loss * self.problem["loss_step"], vertex.time * self.problem["time_step_s"]
            ways = [
                self.cheapest(to, by).after(action)
                for to, action in self.actions(vertex.epochs, vertex.pair, loss, time_s)
            ]
            self.known[vertex, by] = min(ways, key=lambda way: way.energy_j, default=Way(math.inf))
        return self.known[vertex, by]

    def actions(self, epochs: int, here: Pair, loss: float, time_s: float) -> Iterator[tuple[Vertex, Way]]:
        """Where the next epoch may lead, and what it takes."""
        for there, run in self.runs.items():
            change = self.changes.get((here, there), None if here != there else {})
            if change is None:
                continue
            at = min(epochs, len(run["loss_robust"]) - 1)
            robust = run["loss_robust"][at] + change.get("loss_robust", 0.0)
            expected = run["loss_expected"][at] + change.get("loss_expected", 0.0)
            ell = math.ceil((loss + robust) / self.problem["loss_step"] - 1e-9)
            ends_s = time_s + run["time_s"] + change.get("time_s", 0.0)
            moment = math.ceil(ends_s / self.problem["time_step_s"] - 1e-9)
            if moment <= self.deadline:
                energy_j = run["energy_j"] + change.get("energy_j", 0.0)
                yield Vertex(epochs + 1, there, ell, moment), Way(energy_j, expected, robust)
