"""The Lagrangian bound: the cheapest mapping of all groups of a layer jointly, at given multipliers.

The constraints on time, CPUs and energy are priced by their multipliers; the price of a second is split over the paths
of the feeds, forward and backward. At these prices instances cost what ``possible_instances`` says, and groups are
coupled only by the exchange of gradients: all replicas of a layer but the aggregator send theirs and get the average,
and instances that start with the first layer do so at the end of their path. The cheapest mapping through each state
(``states``) follows by dynamic programming layer by layer, one group at a time.
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
from palmette.plan.righttrain.optimum.states import StateSpace
from palmette.plan.righttrain.problem import Floats
from palmette.plan.righttrain.trees import Group

Ints = np.ndarray[Any, np.dtype[np.int64]]


class Multipliers(NamedTuple):
    """Lagrange multipliers of the constraints."""

    time_w: float
    """Of time: the price of a second."""
    weights: PathWeights
    """How it is split over the paths."""
    cpu_j: Floats
    """Of each node's CPU: the price of the whole CPU."""
    energy: Floats
    """Of each node's energy limit: what a joule costs above itself."""


class ResourceUsage(NamedTuple):
    """What a mapping uses: the lengths of its paths, and CPU shares and dynamic energy of each node."""

    lengths: PathLengths
    share: Floats
    dynamic_j: Floats


class _GroupPath(NamedTuple):
    """A group's instance and node, and the seconds from its start to the loss, and back to the layer's end."""

    row: int
    node: int
    forward_s: float
    backward_s: float


class JointMappingTable:
    """Costs by layer and joint state of its groups, one axis per group.

    ``layer_cost`` is that of the layer, ``cumulative`` the least of the layer and all below it.
    """

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
        """For each layer, last to first, and each of its groups: the least cost of a mapping, by the group's state."""
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
        """What the cheapest mapping uses, with its optimal shares at these prices."""
        instances, states, above = self._instances, self.cheapest(), list[_GroupPath]()
        share, dynamic_j, exits_s = np.zeros(self.nodes), np.zeros(self.nodes), list[float]()
        final_push_s, final_pull_s = np.zeros((2, len(self.tree.groupings[0])))
        for layer in reversed(range(self._depth)):
            above = [self._group_path(layer, k, states, above) for k in range(len(states[layer]))]
            for path in above:
                if instances.rows[path.row][2] == layer:
                    share[path.node] += self._share[path.row, path.node]
                    dynamic_j[path.node] += self._dynamic_j(path.row, path.node)
            exchange = instances.exchanges[layer]
            if exchange is not None:
                final = exchange.first_replicas and max(states[layer]) < self.nodes
                at: Any = (slice(None), *(path.node for path in above))
                aggregator = int(self._aggregation_j(layer, exchange, final=final)[at].argmin())
                both_s = (exchange.push_s + exchange.pull_s)[aggregator][at]
                if final:
                    final_push_s += exchange.extra_push_s[aggregator][at]
                    final_pull_s += exchange.extra_pull_s[aggregator][at]
                exits_s[:0] = [path.backward_s + float(each) for path, each in zip(above, both_s, strict=True) if layer]
        return ResourceUsage(self._lengths(above, final_push_s, final_pull_s, exits_s), share, dynamic_j)

    def _lengths(
        self, below: list[_GroupPath], final_push_s: Floats, final_pull_s: Floats, exits_s: list[float]
    ) -> PathLengths:
        """The paths of all feeds, from those of the first layer's groups and the final exchange."""
        instances, feeds = self._instances, self.tree.feeds
        groups = [next(k for k, group in enumerate(self.tree.groupings[0]) if feed in group) for feed in feeds]
        paths = [below[k] for k in groups]
        forward_s = [
            path.forward_s + float(instances.input_transfers[feed][0][path.node])
            for path, feed in zip(paths, feeds, strict=True)
        ]
        backward_s = np.array([path.backward_s for path in paths]) + final_push_s[groups]
        update_s = [instances.own_update_s[path.row, path.node] / self._share[path.row, path.node] for path in paths]
        after_s = np.array(update_s) + final_pull_s[groups]
        if not instances.ends.averages_first_layer:
            backward_s, after_s = backward_s + after_s, np.zeros(len(feeds))
        return PathLengths(np.array(forward_s), backward_s, np.array(exits_s), after_s)

    def _dynamic_j(self, row: int, node: int) -> float:
        return float(self._instances.dynamic_j[row, node] * self._share[row, node] ** (self.costs.exponent[node] - 1))

    def _group_path(
        self, layer: int, k: int, states: tuple[tuple[int, ...], ...], above: list[_GroupPath]
    ) -> _GroupPath:
        """The path from a group to the loss and back."""
        instances, group, state = self._instances, self.tree.groupings[layer][k], states[layer][k]
        node, span = state % self.nodes, instances.spans[group]
        row, forward_s, backward_s = span.row(span.first_layer + state // self.nodes, layer), 0.0, 0.0
        if above:
            into = self.tree.parents[layer][k]
            sent, at = instances.transfers[layer, group], (node, above[into].node)
            forward_s = above[into].forward_s + float(sent.there_s[at])
            backward_s = above[into].backward_s + float(sent.back_s[at])
            if self._continues(layer, k) and states[layer + 1][into] == state:
                row = above[into].row
        share = float(self._share[row, node])
        if instances.rows[row][2] == layer:
            forward_s += float(instances.work_s[0][row, node]) / share
        return _GroupPath(
            row, node, forward_s, backward_s + float(instances.layer_backward_s[layer, row, node]) / share
        )

    def _aggregation_j(self, layer: int, exchange: GradientExchange, *, final: bool) -> Floats:
        """What an exchange costs, by aggregator and the node of each replica."""
        total = self._joules * exchange.joules
        if layer:
            total = total + np.tensordot(self._exits_w[layer], exchange.push_s + exchange.pull_s, (0, 1))
        if final:
            push_w, pull_w = self._final_exchange_w
            total = total + np.tensordot(push_w, exchange.extra_push_s, (0, 1))
            total = total + np.tensordot(pull_w, exchange.extra_pull_s, (0, 1))
        return _floats(total)

    @cached_property
    def _exits_w(self) -> dict[int, Floats]:
        """The price of a second of the paths that end with the exchange of a layer, for each of its groups."""
        found: dict[int, list[float]] = {}
        for (layer, _), part in zip(self._instances.exits, self.multipliers.weights.exits.tolist(), strict=True):
            found.setdefault(layer, []).append(self.multipliers.time_w * part)
        return {layer: np.array(watts) for layer, watts in found.items()}

    @cached_property
    def _final_exchange_w(self) -> tuple[Floats, Floats]:
        """The price of a second of the first layer's exchange, there and back, for each of its groups."""
        index, weights = {feed: k for k, feed in enumerate(self.tree.feeds)}, self.multipliers.weights
        groups = [[index[feed] for feed in group] for group in self.tree.groupings[0]]
        push_w, pull_w = (
            self.multipliers.time_w * np.array([each[group].sum() for group in groups])
            for each in (weights.backward, weights.after)
        )
        return push_w, pull_w

    def _backward_watts(self) -> dict[tuple[int, Group], float]:
        """The price of a second on the backward path through each group of each layer."""
        weights = self.multipliers.weights
        watts = self.multipliers.time_w * (
            self._instances.on_return_path @ np.concatenate((weights.backward, weights.exits))
        )
        places = [(layer, group) for layer, groups in enumerate(self.tree.groupings) for group in groups]
        return dict(zip(places, watts.tolist(), strict=True))

    def _min_costs(self) -> tuple[Floats, Floats]:
        instances, weights = self._instances, self.multipliers.weights
        forward_s, update_s = instances.work_s[0], instances.own_update_s
        forward_w, after_w = (
            self.multipliers.time_w * (instances.has_feed @ parts)[:, None]
            for parts in (weights.forward, weights.after)
        )
        backward_w = np.array(
            [[[self._backward_w.get((k, group), 0.0)] for group, _, _ in instances.rows] for k in range(self._depth)]
        )
        with np.errstate(invalid="ignore"):
            time_j = (
                forward_w * forward_s
                + (backward_w * instances.layer_backward_s).sum(axis=0)
                + after_w * instances.starts_at_input * update_s
            )
            dynamic_j = self._joules * (1 + self.multipliers.energy) * instances.dynamic_j
        self._forward_w = {group: float(forward_w[span.offset, 0]) for group, span in instances.spans.items()}
        return instances.min_cost(time_j, dynamic_j, self.multipliers.cpu_j)

    def _continues(self, layer: int, k: int) -> bool:
        """Whether a group is the same in the layer above."""
        return len(self.tree.children[layer][self.tree.parents[layer][k]]) == 1

    @cached_property
    def _transitions(self) -> list[list[Floats]]:
        """By layer and group: the cost of its output from its states to those above, infinite where impossible."""
        return [
            [self._transition(layer, k) for k in range(len(self.tree.groupings[layer]))]
            for layer in range(self._depth - 1)
        ]

    def _transition(self, layer: int, k: int) -> Floats:
        group, below, above = self.tree.groupings[layer][k], *self._pair(layer, k)
        sent = self._instances.transfers[layer, group]
        time_j = time_cost_j(self._forward_w[group], sent.there_s)
        time_j = time_j + time_cost_j(self._backward_w[layer, group], sent.back_s)
        from_, to = below[:, None] % self.nodes, above % self.nodes
        cost_j = (time_j + self._joules * sent.joules)[from_, to]
        if not self._continues(layer, k):
            return cost_j
        begun = above // self.nodes == layer + 1 - self._instances.spans[group].first_layer
        cost_j[(from_ == to) | ~begun] = np.inf
        cost_j[below[:, None] == above] = 0.0  # the same instance
        return cost_j

    def _pair(self, layer: int, k: int) -> tuple[Ints, Ints]:
        return self.remaining[layer][k], self.remaining[layer + 1][self.tree.parents[layer][k]]

    def _pass_up(self, layer: int) -> Floats:
        """The least cost of all below a layer, for each of its states."""
        parents, many = self.tree.parents[layer - 1], len(self.tree.groupings[layer])
        value = self.cumulative[layer - 1]
        for k, transition in enumerate(self._transitions[layer - 1]):  # a child's axis becomes that of its parent
            shape = value.shape
            value = (value.reshape(-1, shape[k], 1, math.prod(shape[k + 1 :])) + transition[:, :, None]).min(axis=1)
            value = value.reshape(*shape[:k], transition.shape[1], *shape[k + 1 :])
        letters = "abcdefghijklmnopqrstuvwxyz"
        return _floats(np.einsum(f"{''.join(letters[into] for into in parents)}->{letters[:many]}", value))

    def _pass_down(self, layer: int, value: Floats) -> Floats:
        """The least cost of a layer and all above it, for each state of the layer below."""
        order: list[int] = []
        for children in self.tree.children[layer - 1]:  # a parent's axis becomes those of its children
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
        """What a layer costs in each state: where an instance continues, what the layer adds to it."""
        groups = self.tree.groupings[layer]
        total = np.zeros((1,) * len(groups))
        for k, group in enumerate(groups):
            total = total + _on_axis(self._added_j(layer, group)[self.remaining[layer][k]], k, len(groups))
        exchange = self._instances.exchanges[layer]
        return total if exchange is None else total + self._exchange_j(layer, exchange)

    def _added_j(self, layer: int, group: Group) -> Floats:
        span, cost_j = self._instances.spans[group], self._cost_j
        found = []
        for first in range(span.first_layer, layer):
            before, after = cost_j[span.row(first, layer - 1)], cost_j[span.row(first, layer)]
            found.append(np.subtract(after, before, out=np.full_like(after, np.inf), where=np.isfinite(before)))
        found.append(cost_j[span.row(layer, layer)])
        if layer == 0:
            for feed in group:
                found[0] = found[0] + self._input_j(feed)
        return np.concatenate(found)

    def _input_j(self, feed: int) -> Floats:
        time_s, joules = self._instances.input_transfers[feed]
        return (
            time_cost_j(
                self.multipliers.time_w * float(self.multipliers.weights.forward[self.tree.feeds.index(feed)]), time_s
            )
            + self._joules * joules
        )

    def _exchange_j(self, layer: int, exchange: GradientExchange) -> Floats:
        """What the exchange of a layer's gradients costs, at the best aggregator.

        It is at the end of paths only where all replicas start with the first layer: they share one aggregator.
        """
        remaining = self.remaining[layer]
        nodes = [states % self.nodes for states in remaining]
        total = self._aggregation_j(layer, exchange, final=False).min(axis=0)[np.ix_(*nodes)]
        if exchange.first_replicas:
            from_input = [np.flatnonzero(states < self.nodes) for states in remaining]
            final_j = self._aggregation_j(layer, exchange, final=True).min(axis=0)
            on_nodes = [states[own] for states, own in zip(nodes, from_input, strict=True)]
            total[np.ix_(*from_input)] = final_j[np.ix_(*on_nodes)]
        return _floats(total)


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _on_axis(values: Floats, axis: int, many: int) -> Floats:
    """A vector along one of many axes."""
    return values.reshape([-1 if each == axis else 1 for each in range(many)])
