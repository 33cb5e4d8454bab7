"""Cheapest paths to the target on the expanded graph, in time, and if need be by a certain model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from palmette.plan.pact.expanded_graph import Ahead, Grid
from palmette.plan.pact.label_search import Effort, Least, Ways, best_price, cheapest


class Path(NamedTuple):
    """A way to the target: joules, steps of time, and sums of the expected and the robust changes of the loss."""

    energy_j: float
    steps: int
    expected: float
    robust: float


_ARRIVED = Path(0.0, 0, 0.0, 0.0)


class Paths:
    """The paths of a grid that come by one of the pairs ``through``, from where on they are ``plain``'s; or all.

    A pair is numbered on (by the number of pairs) once a path has come by one of those that it must.
    """

    def __init__(self, grid: Grid, through: Iterable[int] = (), plain: Paths | None = None) -> None:
        self.grid, self._through, self._plain = grid, frozenset(through), plain
        self._known: dict[tuple[int, int, int], Path] = {}
        self._priced: dict[float, Ahead] = {}
        self._price: float | None = None
        self._effort = Effort()

    def cheapest(self, epochs: int, pair: int, above: int, left: int) -> Path | None:
        """The cheapest path from a vertex: after so many epochs, steps above the target, steps of time left."""
        if left < 0 or self.energy.at(epochs, pair, above) == math.inf:
            return None
        path = self.followed(epochs, pair, above)
        if path.steps <= left:
            return path
        if self.time.at(epochs, pair, above) > left:
            return None
        if self._price is None:
            self._price = self._best_price(epochs, pair, above, left)
        found = cheapest(self._ways, (epochs, self._numbered(pair), above), left, self._effort)
        return None if found is None else self._summed(found, epochs)

    def at_least(self, epochs: int, pair: int, above: int, left: int) -> float:
        """A lower bound of the joules of a path from a vertex; infinite where there is none."""
        if left < 0:
            return math.inf
        least = self.energy.at(epochs, pair, above)
        if self._price is None:
            return least
        return max(least, self.priced(self._price).at(epochs, pair, above) - self._price * left)

    def most_steps(self, epochs: int, pair: int, left: int) -> int:
        """The most steps that the loss can fall within steps of time."""
        return self.time.farthest(epochs, pair, left)

    @cached_property
    def energy(self) -> Ahead:
        """The least joules ahead, and a trifle for every epoch, so that no way that costs nothing goes in circles."""
        joules = self.grid.moves.energy_j
        cost = joules + 1e-12 * (float(joules.max()) or 1.0)
        return Ahead(self.grid, cost, self._through, self._plain.energy if self._plain else None)

    def priced(self, price: float) -> Ahead:
        """The least of joules and steps of time ahead, at a price in joules a step."""
        if price not in self._priced:
            cost = self.grid.moves.energy_j + price * self.grid.time_steps
            plain = self._plain.priced(price) if self._plain else None
            self._priced[price] = Ahead(self.grid, cost, self._through, plain)
        return self._priced[price]

    def _best_price(self, epochs: int, pair: int, above: int, left: int) -> float:
        guess = float(self.grid.moves.energy_j.max() / max(1, self.grid.time_steps.max())) or 1.0
        return best_price(lambda price: self.priced(price).at(epochs, pair, above) - price * left, guess)

    @cached_property
    def time(self) -> Ahead:
        """The least steps of time ahead."""
        steps = self.grid.time_steps.astype(float)
        return Ahead(self.grid, steps, self._through, self._plain.time if self._plain else None)

    def followed(self, epochs: int, pair: int, above: int) -> Path:
        """The cheapest path from a vertex, whatever time it takes."""
        last = len(self.grid.steps) - 1
        came: list[tuple[tuple[int, int, int], int]] = []
        vertex = (min(epochs, last), pair, max(above, -self.grid.below))
        while (path := self._known.get(vertex) or self._given(vertex)) is None:
            move = self._best_move(*vertex)
            came.append((vertex, move))
            row, _, above = vertex
            step = self._steps[row][move]
            vertex = (min(row + 1, last), self._there[move], max(above + step, -self.grid.below))
        for vertex, move in reversed(came):
            path = self._extended(path, vertex[0], move)
            self._known[vertex] = path
        return path

    def _given(self, vertex: tuple[int, int, int]) -> Path | None:
        """The path from a vertex that needs no move of these paths."""
        _, pair, above = vertex
        if self._plain is None:
            return _ARRIVED if above <= 0 else None
        return self._plain.followed(*vertex) if pair in self._through else None

    def _best_move(self, row: int, pair: int, above: int) -> int:
        ahead, steps = self.energy, self._steps[row]
        return min(
            self.grid.moves.out[pair],
            key=lambda move: ahead.cost[move] + ahead.at(row + 1, self._there[move], above + steps[move]),
        )

    def _extended(self, path: Path, row: int, move: int) -> Path:
        moves = self.grid.moves
        return Path(
            path.energy_j + float(moves.energy_j[move]),
            path.steps + int(self.grid.time_steps[move]),
            path.expected + float(moves.expected[row, move]),
            path.robust + float(moves.robust[row, move]),
        )

    def _summed(self, found: list[int], epochs: int) -> Path:
        path = _ARRIVED
        for number in reversed(range(len(found))):
            move = found[number] % len(self.grid.moves.here)
            path = self._extended(path, self.grid.moves.row(epochs + number), move)
        return path

    @cached_property
    def _steps(self) -> list[list[int]]:
        steps: list[list[int]] = self.grid.steps.tolist()
        return steps

    @cached_property
    def _there(self) -> list[int]:
        there: list[int] = self.grid.moves.there.tolist()
        return there

    def _numbered(self, pair: int) -> int:
        return pair + len(self.grid.moves.pairs) if pair in self._through else pair

    @cached_property
    def _ways(self) -> Ways:
        moves, many, pairs = self.grid.moves, len(self.grid.moves.here), len(self.grid.moves.pairs)
        price = self._price or 0.0
        after = self._plain or self

        def least(before: Ahead, later: Ahead) -> Least:
            return lambda k, p, x: (before if p < pairs else later).at(k, p % pairs, int(x))

        return Ways(
            loss=[row * 2 for row in self._steps],
            time=self.grid.time_steps.tolist() * 2,
            energy=moves.energy_j.tolist() * 2,
            there=[self._numbered(pair) for pair in self._there] + [pair + pairs for pair in self._there],
            out=[*moves.out, *([move + many for move in out] for out in moves.out)],
            least_energy=least(self.energy, after.energy),
            least_time=least(self.time, after.time),
            least_priced=least(self.priced(price), after.priced(price)),
            price=price,
            ends=lambda pair: self._plain is None or pair >= pairs,
        )
