"""The table of the bound with all groups of a layer at once, for few groups and nodes: closer, since groups meet.

What a group costs depends on where the others are. Groups on one node share its CPU: for shares ρ that add up to R,
Σ λ w / ρ ≥ (Σ √(λ w))² / R. Groups on different nodes exchange gradients: all but the one where they meet send and get
them, and whoever holds the first layer does so at the end of its path. So a state is the node of every group of a
layer, and whether its instance began with the first layer (is *low*); the cheapest way to map all layers up to a state
follows layer by layer, one group at a time.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from palmette.plan.righttrain_search.bound import Table
from palmette.plan.righttrain_search.ground import Floats

MOST_STATES = 50_000
State = tuple[int, ...]
"""For each group its node, plus the number of nodes where its instance is low."""


def fits(table: Table) -> bool:
    """Whether a table is small enough."""
    groups = max(map(len, table.tree.groupings))
    return math.prod([2 * len(table.costs.nodes)] * groups) <= MOST_STATES


class JointTable:
    """``up_to[layer]``: the least cost of the layers up to one, an axis a group; ``own[layer]``: of the layer alone."""

    def __init__(self, table: Table) -> None:
        self._table, self._tree, self.ground = table, table.tree, table.costs.ground
        self.nodes = len(table.costs.nodes)
        self.own = [self._own(layer) for layer in range(len(table.tree.groupings))]
        self.up_to = [self.own[0]]
        for layer in range(1, len(self.own)):
            self.up_to.append(self.own[layer] + self._passed(layer))

    def total_j(self) -> float:
        """The cost of the cheapest mapping."""
        return float(self.up_to[-1].min())

    def onto_j(self, layer: int, above: State) -> Floats:
        """What passing on the outputs of a layer costs for each state, to the groups above in theirs."""
        total = np.zeros(self.up_to[layer].shape)
        for k, into in enumerate(self._tree.parents[layer]):
            total = total + _along(self._moves(layer, k)[:, above[into]], k, total.ndim)
        return total

    def _moves(self, layer: int, k: int) -> Floats:
        """What passing on a group's output costs from each of its states to each above, infinite where that is none."""
        passing = self._table.passing_j(layer, k)
        alone = len(self._tree.children[layer][self._tree.parents[layer][k]]) == 1
        stays = np.where(np.eye(self.nodes, dtype=bool) & alone, passing, np.inf)
        leaves = np.where(np.eye(self.nodes, dtype=bool) & alone, np.inf, passing)
        return np.block([[passing, np.full_like(passing, np.inf)], [leaves, stays]])

    def _passed(self, layer: int) -> Floats:
        """The least cost of all below a layer, for each of its states."""
        parents, many = self._tree.parents[layer - 1], len(self._tree.groupings[layer])
        value = self.up_to[layer - 1]
        for k in range(len(parents)):  # the axis of a child becomes that of where its output goes
            last = np.moveaxis(value, k, -1)
            value = np.moveaxis((last[..., :, None] + self._moves(layer - 1, k)).min(axis=-2), -1, k)
        letters = "abcdefghijklmnopqrstuvwxyz"
        return _floats(np.einsum(f"{''.join(letters[into] for into in parents)}->{letters[:many]}", value))

    def _own(self, layer: int) -> Floats:
        table, groups = self._table, range(len(self._tree.groupings[layer]))
        many = len(groups)
        separate = [table.own_j(layer, k) for k in groups]
        total = np.zeros((self.nodes,) * many)
        for k in groups:
            total = total + _along(separate[k], k, many)
            if layer == 0:
                for feed in self._tree.groupings[0][k]:
                    total = total + _along(table.data_j(feed), k, many)
        if many > 1:
            total = total + self._crowding_j(layer, separate)
        for k in groups:  # the same whether its instance is low or not, but the first layer's is
            total = np.concatenate((total if layer else np.full_like(total, np.inf), total), axis=k)
        return total + self._exchange_j(layer, many) if many > 1 else total

    def _crowding_j(self, layer: int, separate: list[Floats]) -> Floats:
        """What groups on one node cost more than each alone."""
        table, many = self._table, len(separate)
        costs = table.costs
        work = [costs.work_s(layer, table.samples(layer, k)) for k in range(many)]
        root = [np.sqrt(table.price_w(layer, k) * work[k]) for k in range(many)]
        fixed = [costs.fixed_j(layer, table.samples(layer, k)) for k in range(many)]
        extra = np.zeros((self.nodes,) * many)
        for node in np.flatnonzero(np.isfinite(sum(work))):
            on = np.eye(self.nodes)[node]
            together = sum(_along(root[k][node] * on, k, many) for k in range(many)) ** 2 / costs.limit[node]
            kept = sum(_along(fixed[k][node] * on, k, many) for k in range(many))
            alone = sum(_along(separate[k][node] * on, k, many) for k in range(many))
            extra = extra + np.maximum(0.0, together + kept - alone)
        return extra

    def _exchange_j(self, layer: int, many: int) -> Floats:
        """What the exchange of a layer's gradients costs, wherever its replicas meet."""
        size = self.ground.task.evaluator.sizes().weight_bytes([(layer + 1, layer + 1)])
        both_j, both_s = self._there_and_back
        meeting = []
        for meet in range(many):
            total = np.zeros((2 * self.nodes,) * many)
            for k in (k for k in range(many) if k != meet):
                pair = size * both_j
                pair[self.nodes :] += size * self._table.price_w(layer, k) * both_s[self.nodes :]
                shape = [2 * self.nodes if axis in (k, meet) else 1 for axis in range(many)]
                total = total + (pair if k < meet else pair.T).reshape(shape)
            meeting.append(total)
        return _floats(np.minimum.reduce(meeting))

    @cached_property
    def _there_and_back(self) -> tuple[Floats, Floats]:
        """Joules and seconds of a byte between two states, there and back."""
        square = np.ix_(self._table.costs.nodes, self._table.costs.nodes)
        joules = (self.ground.byte_j + self.ground.byte_j.T)[square]
        seconds = (self.ground.byte_s + self.ground.byte_s.T)[square]
        return np.tile(joules, (2, 2)), np.tile(seconds, (2, 2))


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _along(values: Floats, axis: int, many: int) -> Floats:
    """A vector along one of many axes."""
    return values.reshape([-1 if each == axis else 1 for each in range(many)])
