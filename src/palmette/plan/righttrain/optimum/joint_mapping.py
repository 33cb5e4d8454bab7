"""The cheapest mapping of all groups of a layer at once, at prices of time, of CPUs and of energy limits: a bound.

The price of a second is split over the ways forward and backward of the feeds, the CPU of each node has its own price.
At these prices instances cost what ``instances`` says, and what is left couples groups only by the exchange of
gradients: all replicas of a layer but the one where they meet send theirs and get the average, and instances that
begin with the first layer do so at the end of their path. A *state* of a group in a layer is its node and the first
layer of its instance; the cheapest way to map all layers through a state follows layer by layer, a group at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from palmette.plan.righttrain.layer_costs import time_cost_j
from palmette.plan.righttrain.optimum.path_weights import PathLengths, PathWeights
from palmette.plan.righttrain.optimum.possible_instances import GradientExchange, PossibleInstances
from palmette.plan.righttrain.problem import Floats
from palmette.plan.righttrain.trees import Group

Ints = np.ndarray[Any, np.dtype[np.int64]]
StateSpace = tuple[tuple[Ints, ...], ...]
"""By layer and group the states that it may be in: its node, plus the number of nodes for every layer that its
instance began after its birth."""


class Multipliers(NamedTuple):
    """What the constraints are worth."""

    time_w: float
    """A second, in all."""
    weights: PathWeights
    """The parts of it."""
    cpu_j: Floats
    """The CPU of each node."""
    energy: Floats
    """A joule of each node above its own."""


class ResourceUsage(NamedTuple):
    """What a mapping uses: seconds of the ways through it, and shares and joules of each node."""

    lengths: PathLengths
    share: Floats
    dynamic_j: Floats


class _GroupPath(NamedTuple):
    """A group's instance and node, and the seconds from where it begins to the loss, and back to the layer's end."""

    row: int
    node: int
    there_s: float
    back_s: float


def max_joint_states(remaining: StateSpace) -> int:
    """The states of all groups of a layer together, of the layer with the most."""
    return max(math.prod(map(len, groups)) for groups in remaining)


def is_empty(remaining: StateSpace) -> bool:
    """Whether some group has no state left."""
    return not all(len(states) for groups in remaining for states in groups)


def all_states(instances: PossibleInstances) -> StateSpace:
    """All states of a tree in which its instances can run, and private data stays where it is."""
    return tuple(
        tuple(_feasible_states(instances, layer, group) for group in groups)
        for layer, groups in enumerate(instances.tree.groupings)
    )


def _feasible_states(instances: PossibleInstances, layer: int, group: Group) -> Ints:
    life, found = instances.spans[group], []
    for first in range(life.first_layer, layer + 1):
        able = instances.feasible[life.row(first, layer)].copy()
        for feed in group if first == 0 else ():
            able &= np.isfinite(instances.input_transfers[feed][0])
        found.append(able)
    return np.flatnonzero(np.concatenate(found))


class JointMappingTable:
    """``layer_cost[layer]``: the cost of a layer for the states of its groups, an axis a group; ``cumulative``: of all up to it."""

    def __init__(
        self, instances: PossibleInstances, multipliers: Multipliers, remaining: StateSpace, *, time_only: bool = False
    ) -> None:
        self._instances, self.tree, self.costs = instances, instances.tree, instances.costs
        self.multipliers, self.remaining, self._joules = multipliers, remaining, 0.0 if time_only else 1.0
        self.nodes, self._depth = len(self.costs.nodes), len(remaining)
        self._backward_w = self._backward_watts()
        self._cost_j, self._share = self._min_costs()
        self.layer_cost = [self._layer_cost(layer) for layer in range(self._depth)]
        self.cumulative = [self.layer_cost[0]]
        for layer in range(1, self._depth):
            self.cumulative.append(self.layer_cost[layer] + self._pass_up(layer))

    def total_j(self) -> float:
        """The cost of the cheapest mapping."""
        return float(self.cumulative[-1].min())

    def min_cost_through_j(self) -> Iterator[list[Floats]]:
        """For each layer, the last first, and each of its groups: the least cost of a mapping, by the group's state."""
        above = np.zeros_like(self.cumulative[-1])
        for layer in reversed(range(self._depth)):
            total = self.cumulative[layer] + above
            yield [total.min(axis=tuple(a for a in range(total.ndim) if a != k)) for k in range(total.ndim)]
            if layer:
                above = self._pass_down(layer, self.layer_cost[layer] + above)

    def cheapest(self) -> tuple[tuple[int, ...], ...]:
        """The states of the cheapest mapping, by layer."""
        found: list[tuple[int, ...]] = []
        at: tuple[int, ...] = ()
        for layer in reversed(range(self._depth)):
            total = self.cumulative[layer]
            for k, into in enumerate(self.tree.parents[layer] if at else ()):
                total = total + _on_axis(self._transitions[layer][k][:, at[into]], k, total.ndim)
            at = tuple(int(each) for each in np.unravel_index(int(total.argmin()), total.shape))
            found.insert(0, tuple(int(self.remaining[layer][k][each]) for k, each in enumerate(at)))
        return tuple(found)

    def usage(self) -> ResourceUsage:
        """What the cheapest mapping uses with the shares of these prices."""
        known, states, above = self._instances, self.cheapest(), list[_GroupPath]()
        share, dynamic_j, exits_s = np.zeros(self.nodes), np.zeros(self.nodes), list[float]()
        final_exchange_s = np.zeros(len(self.tree.groupings[0]))
        for layer in reversed(range(self._depth)):
            above = [self._group_path(layer, k, states, above) for k in range(len(states[layer]))]
            for path in above:
                if known.rows[path.row][2] == layer:
                    share[path.node] += self._share[path.row, path.node]
                    dynamic_j[path.node] += self._dynamic_j(path.row, path.node)
            exchange = known.exchanges[layer]
            if exchange is not None:
                low = exchange.low and max(states[layer]) < self.nodes
                there_s, extra_send_s = self._exchange_times_s(layer, exchange, [path.node for path in above], low=low)
                final_exchange_s += extra_send_s if low else 0.0
                exits_s[:0] = [
                    path.back_s + 2 * float(each) for path, each in zip(above, there_s, strict=True) if layer
                ]
        return ResourceUsage(self._lengths(above, final_exchange_s, exits_s), share, dynamic_j)

    def _exchange_times_s(
        self, layer: int, known: GradientExchange, nodes: list[int], *, low: bool
    ) -> tuple[Floats, Floats]:
        """Seconds of the exchange of each group, one way, where the replicas meet most cheaply; see ``GradientExchange``."""
        at: Any = (slice(None), *nodes)
        aggregator = int(self._aggregation_j(layer, known, low=low)[at].argmin())
        return known.send_s[aggregator][at], known.extra_send_s[aggregator][at]

    def _lengths(self, below: list[_GroupPath], final_exchange_s: Floats, exits_s: list[float]) -> PathLengths:
        """The ways of all feeds, from those of the first layer's groups and what the exchange adds to them."""
        known, feeds = self._instances, self.tree.feeds
        groups = [next(k for k, group in enumerate(self.tree.groupings[0]) if feed in group) for feed in feeds]
        paths, final_exchange_s = [below[k] for k in groups], final_exchange_s[groups]
        forward_s = [
            path.there_s + float(known.input_transfers[feed][0][path.node])
            for path, feed in zip(paths, feeds, strict=True)
        ]
        back_s = np.array([path.back_s for path in paths]) + final_exchange_s
        update_s = [known.own_update_s[path.row, path.node] / self._share[path.row, path.node] for path in paths]
        after_s = np.array(update_s) + final_exchange_s
        if not known.ends.averages_first_layer:
            back_s, after_s = back_s + after_s, np.zeros(len(feeds))
        return PathLengths(np.array(forward_s), back_s, np.array(exits_s), after_s)

    def _dynamic_j(self, row: int, node: int) -> float:
        return float(self._instances.dynamic_j[row, node] * self._share[row, node] ** (self.costs.exponent[node] - 1))

    def _group_path(
        self, layer: int, k: int, states: tuple[tuple[int, ...], ...], above: list[_GroupPath]
    ) -> _GroupPath:
        """The way from a group to the loss and back."""
        known, group, state = self._instances, self.tree.groupings[layer][k], states[layer][k]
        node, life = state % self.nodes, known.spans[group]
        row, there_s, back_s = life.row(life.first_layer + state // self.nodes, layer), 0.0, 0.0
        if above:
            into = self.tree.parents[layer][k]
            way_s = float(known.transfers[layer, group][0][node, above[into].node]) / 2
            there_s, back_s = above[into].there_s + way_s, above[into].back_s + way_s
            if self._continues(layer, k) and states[layer + 1][into] == state:
                row = above[into].row
        share = float(self._share[row, node])
        if known.rows[row][2] == layer:
            there_s += float(known.work_s[0][row, node]) / share
        return _GroupPath(row, node, there_s, back_s + float(known.layer_backward_s[layer, row, node]) / share)

    def _aggregation_j(self, layer: int, known: GradientExchange, *, low: bool) -> Floats:
        """What an exchange costs, by the replica where they meet and the node of each."""
        total = self._joules * known.joules
        if layer:
            total = total + np.tensordot(2 * self._exits_w[layer], known.send_s, (0, 1))
        if low:
            total = total + np.tensordot(self._final_exchange_w, known.extra_send_s, (0, 1))
        return _floats(total)

    @cached_property
    def _exits_w(self) -> dict[int, Floats]:
        """The price of a second of the ways that end with the exchange of a layer, for each of its groups."""
        found: dict[int, list[float]] = {}
        for (layer, _), part in zip(self._instances.exits, self.multipliers.weights.exits.tolist(), strict=True):
            found.setdefault(layer, []).append(self.multipliers.time_w * part)
        return {layer: np.array(watts) for layer, watts in found.items()}

    @cached_property
    def _final_exchange_w(self) -> Floats:
        """The price of a second of the first layer's exchange, one way, for each of its groups."""
        both = self.multipliers.time_w * (self.multipliers.weights.backward + self.multipliers.weights.after)
        index = {feed: k for k, feed in enumerate(self.tree.feeds)}
        return np.array([sum(both[index[feed]] for feed in group) for group in self.tree.groupings[0]])

    def _backward_watts(self) -> dict[tuple[int, Group], float]:
        """The price of a second on the way back through each group of each layer."""
        weights = self.multipliers.weights
        watts = self.multipliers.time_w * (
            self._instances.on_return_path @ np.concatenate((weights.backward, weights.exits))
        )
        places = [(layer, group) for layer, groups in enumerate(self.tree.groupings) for group in groups]
        return dict(zip(places, watts.tolist(), strict=True))

    def _min_costs(self) -> tuple[Floats, Floats]:
        known, weights = self._instances, self.multipliers.weights
        forward_s, update_s = known.work_s[0], known.own_update_s
        forward_w, after_w = (
            self.multipliers.time_w * (known.has_feed @ parts)[:, None] for parts in (weights.forward, weights.after)
        )
        backward_w = np.array(
            [[[self._backward_w.get((k, group), 0.0)] for group, _, _ in known.rows] for k in range(self._depth)]
        )
        with np.errstate(invalid="ignore"):
            time_j = (
                forward_w * forward_s
                + (backward_w * known.layer_backward_s).sum(axis=0)
                + after_w * known.low * update_s
            )
            dynamic_j = self._joules * (1 + self.multipliers.energy) * known.dynamic_j
        self._forward_w = {group: float(forward_w[life.offset, 0]) for group, life in known.spans.items()}
        return known.min_cost(time_j, dynamic_j, self.multipliers.cpu_j)

    def _continues(self, layer: int, k: int) -> bool:
        """Whether a group goes on in the layer above as it is."""
        return len(self.tree.children[layer][self.tree.parents[layer][k]]) == 1

    @cached_property
    def _transitions(self) -> list[list[Floats]]:
        """By layer and group: what passing on its output costs from its states to those above, infinite for none."""
        return [
            [self._transition(layer, k) for k in range(len(self.tree.groupings[layer]))]
            for layer in range(self._depth - 1)
        ]

    def _transition(self, layer: int, k: int) -> Floats:
        group, below, above = self.tree.groupings[layer][k], *self._pair(layer, k)
        time_s, joules = self._instances.transfers[layer, group]
        watts = (self._forward_w[group] + self._backward_w[layer, group]) / 2
        from_, to = below[:, None] % self.nodes, above % self.nodes
        passing = (time_cost_j(watts, time_s) + self._joules * joules)[from_, to]
        if not self._continues(layer, k):
            return passing
        begun = above // self.nodes == layer + 1 - self._instances.spans[group].first_layer
        passing[(from_ == to) | ~begun] = np.inf
        passing[below[:, None] == above] = 0.0  # the same instance
        return passing

    def _pair(self, layer: int, k: int) -> tuple[Ints, Ints]:
        return self.remaining[layer][k], self.remaining[layer + 1][self.tree.parents[layer][k]]

    def _pass_up(self, layer: int) -> Floats:
        """The least cost of all below a layer, for each of its states."""
        parents, many = self.tree.parents[layer - 1], len(self.tree.groupings[layer])
        value = self.cumulative[layer - 1]
        for k, transition in enumerate(
            self._transitions[layer - 1]
        ):  # the axis of a child becomes that of where its output goes
            shape = value.shape
            value = (value.reshape(-1, shape[k], 1, math.prod(shape[k + 1 :])) + transition[:, :, None]).min(axis=1)
            value = value.reshape(*shape[:k], transition.shape[1], *shape[k + 1 :])
        letters = "abcdefghijklmnopqrstuvwxyz"
        return _floats(np.einsum(f"{''.join(letters[into] for into in parents)}->{letters[:many]}", value))

    def _pass_down(self, layer: int, value: Floats) -> Floats:
        """The least cost of a layer and all above it, for each state of the layer below."""
        order: list[int] = []
        for children in self.tree.children[layer - 1]:  # the first axis of what is left becomes those of its children
            joined = np.zeros(1)
            for a, k in enumerate(children):
                transition = self._transitions[layer - 1][k]
                shape = [len(transition) if a == b else 1 for b in range(len(children))]
                joined = joined + transition.reshape(*shape, transition.shape[1])
            value = np.moveaxis(value, 0, -1)
            value = (value.reshape(*value.shape[:-1], *(1,) * len(children), value.shape[-1]) + joined).min(axis=-1)
            order += children
        return _floats(value.transpose(np.argsort(order)))

    def _layer_cost(self, layer: int) -> Floats:
        """What a layer costs for each state: in instances that go on, what it adds to them."""
        groups = self.tree.groupings[layer]
        total = np.zeros((1,) * len(groups))
        for k, group in enumerate(groups):
            total = total + _on_axis(self._added_j(layer, group)[self.remaining[layer][k]], k, len(groups))
        exchange = self._instances.exchanges[layer]
        return total if exchange is None else total + self._exchange_j(layer, exchange)

    def _added_j(self, layer: int, group: Group) -> Floats:
        life, cost_j = self._instances.spans[group], self._cost_j
        found = []
        for first in range(life.first_layer, layer):
            before, after = cost_j[life.row(first, layer - 1)], cost_j[life.row(first, layer)]
            found.append(np.subtract(after, before, out=np.full_like(after, np.inf), where=np.isfinite(before)))
        found.append(cost_j[life.row(layer, layer)])
        if layer == 0:
            for feed in group:
                found[0] = found[0] + self._data_j(feed)
        return np.concatenate(found)

    def _data_j(self, feed: int) -> Floats:
        time_s, joules = self._instances.input_transfers[feed]
        return (
            time_cost_j(
                self.multipliers.time_w * float(self.multipliers.weights.forward[self.tree.feeds.index(feed)]), time_s
            )
            + self._joules * joules
        )

    def _exchange_j(self, layer: int, known: GradientExchange) -> Floats:
        """What the exchange of a layer's gradients costs, wherever its replicas meet.

        It ends paths only where all replicas began with the first layer: these meet in one place for all their layers.
        """
        remaining = self.remaining[layer]
        nodes = [states % self.nodes for states in remaining]
        total = self._aggregation_j(layer, known, low=False).min(axis=0)[np.ix_(*nodes)]
        if known.low:
            low = [np.flatnonzero(states < self.nodes) for states in remaining]
            ending = self._aggregation_j(layer, known, low=True).min(axis=0)
            total[np.ix_(*low)] = ending[
                np.ix_(*(states[layer_cost] for states, layer_cost in zip(nodes, low, strict=True)))
            ]
        return _floats(total)


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _on_axis(values: Floats, axis: int, many: int) -> Floats:
    """A vector along one of many axes."""
    return values.reshape([-1 if each == axis else 1 for each in range(many)])
