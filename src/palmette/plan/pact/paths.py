"""Cheapest paths on the expanded graph that meet target and deadline, if required through a given model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from palmette.plan.pact.expanded_graph import ExpandedGraph, GraphCostToGo
from palmette.plan.pact.label_search import LowerBound, SearchBudget, SearchGraph, best_price, cheapest_path


class GraphPath(NamedTuple):
    """A path to the target: joules, time steps, and sums of the expected and the robust changes of the loss."""

    energy_j: float
    steps: int
    expected: float
    robust: float


_AT_TARGET = GraphPath(0.0, 0, 0.0, 0.0)


class CheapestPaths:
    """The cheapest paths of a graph; with ``via`` only those through one of these pairs, then ``unconstrained``'s.

    Once a path has visited such a pair, the numbers of pairs are raised by the number of pairs.
    """

    def __init__(
        self, graph: ExpandedGraph, via: Iterable[int] = (), unconstrained: CheapestPaths | None = None
    ) -> None:
        self.graph, self._via, self._unconstrained = graph, frozenset(via), unconstrained
        self._cache: dict[tuple[int, int, int], GraphPath] = {}
        self._priced: dict[float, GraphCostToGo] = {}
        self._price: float | None = None
        self._budget = SearchBudget()

    def cheapest(self, epochs: int, pair: int, above: int, left: int) -> GraphPath | None:
        """The cheapest path from a vertex: after so many epochs, steps above the target, time steps left."""
        if left < 0 or self.energy.at(epochs, pair, above) == math.inf:
            return None
        path = self.cheapest_untimed(epochs, pair, above)
        if path.steps <= left:
            return path
        if self.time.at(epochs, pair, above) > left:
            return None
        if self._price is None:
            self._price = self._best_price(epochs, pair, above, left)
        found = cheapest_path(self._search_graph, (epochs, self._pair_number(pair), above), left, self._budget)
        return None if found is None else self._sum_path(found, epochs)

    def lower_bound(self, epochs: int, pair: int, above: int, left: int) -> float:
        """A lower bound of the joules of a path from a vertex; infinite where there is none."""
        if left < 0:
            return math.inf
        least = self.energy.at(epochs, pair, above)
        if self._price is None:
            return least
        return max(least, self.priced(self._price).at(epochs, pair, above) - self._price * left)

    def max_fall_steps(self, epochs: int, pair: int, left: int) -> int:
        """The most steps that the loss can fall in the time steps left."""
        return self.time.farthest(epochs, pair, left)

    @cached_property
    def energy(self) -> GraphCostToGo:
        """The least joules to the target, plus a tiny amount per epoch, so that no path of cost 0 goes in circles."""
        joules = self.graph.actions.energy_j
        cost = joules + 1e-12 * (float(joules.max()) or 1.0)
        return GraphCostToGo(self.graph, cost, self._via, self._unconstrained.energy if self._unconstrained else None)

    def priced(self, price: float) -> GraphCostToGo:
        """The least of joules and time steps to the target, at a price in joules per step."""
        if price not in self._priced:
            cost = self.graph.actions.energy_j + price * self.graph.time_steps
            unconstrained = self._unconstrained.priced(price) if self._unconstrained else None
            self._priced[price] = GraphCostToGo(self.graph, cost, self._via, unconstrained)
        return self._priced[price]

    def _best_price(self, epochs: int, pair: int, above: int, left: int) -> float:
        guess = float(self.graph.actions.energy_j.max() / max(1, self.graph.time_steps.max())) or 1.0
        return best_price(lambda price: self.priced(price).at(epochs, pair, above) - price * left, guess)

    @cached_property
    def time(self) -> GraphCostToGo:
        """The least time steps to the target."""
        steps = self.graph.time_steps.astype(float)
        return GraphCostToGo(self.graph, steps, self._via, self._unconstrained.time if self._unconstrained else None)

    def cheapest_untimed(self, epochs: int, pair: int, above: int) -> GraphPath:
        """The cheapest path from a vertex, whatever time it takes."""
        last = len(self.graph.steps) - 1
        visited: list[tuple[tuple[int, int, int], int]] = []
        vertex = (min(epochs, last), pair, max(above, -self.graph.below))
        while (path := self._cache.get(vertex) or self._terminal(vertex)) is None:
            action = self._best_action(*vertex)
            visited.append((vertex, action))
            row, _, above = vertex
            step = self._steps[row][action]
            vertex = (min(row + 1, last), self._to_pair[action], max(above + step, -self.graph.below))
        for vertex, action in reversed(visited):
            path = self._prepend(path, vertex[0], action)
            self._cache[vertex] = path
        return path

    def _terminal(self, vertex: tuple[int, int, int]) -> GraphPath | None:
        """The path from a vertex where these paths end or continue unconstrained."""
        _, pair, above = vertex
        if self._unconstrained is None:
            return _AT_TARGET if above <= 0 else None
        return self._unconstrained.cheapest_untimed(*vertex) if pair in self._via else None

    def _best_action(self, row: int, pair: int, above: int) -> int:
        cost_to_go, steps = self.energy, self._steps[row]
        return min(
            self.graph.actions.outgoing[pair],
            key=lambda action: (
                cost_to_go.cost[action] + cost_to_go.at(row + 1, self._to_pair[action], above + steps[action])
            ),
        )

    def _prepend(self, path: GraphPath, row: int, action: int) -> GraphPath:
        actions = self.graph.actions
        return GraphPath(
            path.energy_j + float(actions.energy_j[action]),
            path.steps + int(self.graph.time_steps[action]),
            path.expected + float(actions.expected[row, action]),
            path.robust + float(actions.robust[row, action]),
        )

    def _sum_path(self, found: list[int], epochs: int) -> GraphPath:
        path = _AT_TARGET
        for number in reversed(range(len(found))):
            action = found[number] % len(self.graph.actions.from_pair)
            path = self._prepend(path, self.graph.actions.row(epochs + number), action)
        return path

    @cached_property
    def _steps(self) -> list[list[int]]:
        steps: list[list[int]] = self.graph.steps.tolist()
        return steps

    @cached_property
    def _to_pair(self) -> list[int]:
        to_pair: list[int] = self.graph.actions.to_pair.tolist()
        return to_pair

    def _pair_number(self, pair: int) -> int:
        return pair + len(self.graph.actions.pairs) if pair in self._via else pair

    @cached_property
    def _search_graph(self) -> SearchGraph:
        actions, count, pairs = self.graph.actions, len(self.graph.actions.from_pair), len(self.graph.actions.pairs)
        price = self._price or 0.0
        after = self._unconstrained or self

        def least(before: GraphCostToGo, later: GraphCostToGo) -> LowerBound:
            return lambda k, p, x: (before if p < pairs else later).at(k, p % pairs, int(x))

        return SearchGraph(
            loss=[row * 2 for row in self._steps],
            time=self.graph.time_steps.tolist() * 2,
            energy=actions.energy_j.tolist() * 2,
            to_pair=[self._pair_number(pair) for pair in self._to_pair] + [pair + pairs for pair in self._to_pair],
            outgoing=[*actions.outgoing, *([action + count for action in each] for each in actions.outgoing)],
            least_energy=least(self.energy, after.energy),
            least_time=least(self.time, after.time),
            least_priced=least(self.priced(price), after.priced(price)),
            price=price,
            may_end=lambda pair: self._unconstrained is None or pair >= pairs,
        )
