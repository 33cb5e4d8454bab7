"""The next action: feasible paths on the expanded graph (Alg. 2), and the one with the lowest score (Alg. 3).

For every first action there is one path, the cheapest that meets target and deadline by the estimates of the graph.

    score = weight · risk / opportunity        opportunity = Σ expected / Σ robust changes of the loss on the path
                                               risk = max(1, Wr / weight)

Wr is the energy of the cheapest path from the vertex after the first action to the target that goes through the model
in use now. Where there is no such path there is nothing to undo, and risk is 1.
"""

from __future__ import annotations

import math

from palmette.plan.pact.expanded_graph import ExpandedGraph
from palmette.plan.pact.paths import CheapestPaths, GraphPath
from palmette.plan.pact.simulation import TrainingState

Vertex = tuple[int, int, int, int]
"""Epochs done, pair, steps above the target, time steps left."""


class ActionSelector:
    """Selects actions on one graph; what is computed for one epoch serves all others."""

    def __init__(self, graph: ExpandedGraph, *, weigh_risk: bool) -> None:
        self.graph, self._weigh_risk = graph, weigh_risk
        self._paths = CheapestPaths(graph)
        self._return_paths: dict[str, CheapestPaths] = {}

    def select(self, state: TrainingState) -> int | None:
        """The action with the lowest score; None if no path meets target and deadline."""
        best, lowest = None, math.inf
        for action in sorted(
            self.graph.actions.outgoing[state.pair], key=lambda action: self._lower_bound(state, action)
        ):
            if not self._weigh_risk and self._lower_bound(state, action) >= lowest:
                continue
            score = self._score(state, action)
            if score < lowest:
                best, lowest = action, score
        return best

    def _lower_bound(self, state: TrainingState, action: int) -> float:
        """A lower bound of the weight of the paths that begin with an action."""
        return float(self.graph.actions.energy_j[action]) + self._paths.lower_bound(*self._vertex(state, action))

    def weight(self, state: TrainingState, action: int) -> float:
        """Joules of the cheapest path that begins with an action; infinite where none meets target and deadline."""
        path = self._paths.cheapest(*self._vertex(state, action))
        return math.inf if path is None else float(self.graph.actions.energy_j[action]) + path.energy_j

    def max_fall(self, state: TrainingState, action: int) -> float:
        """The most that the loss can fall by the deadline with this next action; minus infinity if that is too late."""
        epochs, pair, _, left = self._vertex(state, action)
        if left < 0:
            return -math.inf
        first = -float(self.graph.losses[self.graph.actions.row(state.epochs), action])
        return first + self.graph.loss_step * self._paths.max_fall_steps(epochs, pair, left)

    def _score(self, state: TrainingState, action: int) -> float:
        vertex = self._vertex(state, action)
        path = self._paths.cheapest(*vertex)
        if path is None:
            return math.inf
        weight = float(self.graph.actions.energy_j[action]) + path.energy_j
        if not self._weigh_risk:
            return weight
        return max(weight, self._return_cost_j(state.pair, vertex)) / self._opportunity(state, action, path)

    def _vertex(self, state: TrainingState, action: int) -> Vertex:
        """Where an action leads by the graph's estimates."""
        graph, actions = self.graph, self.graph.actions
        loss = state.loss + float(graph.losses[actions.row(state.epochs), action])
        time_step = graph.time_step(state.time_s + float(actions.time_s[action]))
        return state.epochs + 1, int(actions.to_pair[action]), graph.above_target(loss), graph.deadline - time_step

    def _opportunity(self, state: TrainingState, action: int, path: GraphPath) -> float:
        """How many times further the loss should fall than by the robust estimates; at least 1."""
        actions, row = self.graph.actions, self.graph.actions.row(state.epochs)
        robust = path.robust + float(actions.robust[row, action])
        expected = path.expected + float(actions.expected[row, action])
        return max(1.0, expected / robust) if robust < 0 else 1.0

    def _return_cost_j(self, pair: int, vertex: Vertex) -> float:
        """Wr: joules of the cheapest path from a vertex through a pair's model to the target; 0 without one."""
        actions = self.graph.actions
        model = actions.model(pair)
        if model not in self._return_paths:
            via = [number for number in range(len(actions.pairs)) if actions.model(number) == model]
            self._return_paths[model] = CheapestPaths(self.graph, via, self._paths)
        path = self._return_paths[model].cheapest(*vertex)
        return 0.0 if path is None else path.energy_j
