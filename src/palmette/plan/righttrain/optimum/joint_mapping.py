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

from palmette.plan.righttrain.optimum.instances import Exchange, Instances
from palmette.plan.righttrain.optimum.path_weights import Lengths, Split
from palmette.plan.righttrain.problem import Floats
from palmette.plan.righttrain.trees import Group

Ints = np.ndarray[Any, np.dtype[np.int64]]
Alive = tuple[tuple[Ints, ...], ...]
"""By layer and group the states that it may be in: its node, plus the number of nodes for every layer that its
instance began after its birth."""


class Multipliers(NamedTuple):
    """What the constraints are worth."""

    time_w: float
    """A second, in all."""
    split: Split
    """The parts of it."""
    share_j: Floats
    """The CPU of each node."""
    energy: Floats
    """A joule of each node above its own."""


class Usage(NamedTuple):
    """What a mapping uses: seconds of the ways through it, and shares and joules of each node."""

    lengths: Lengths
    share: Floats
    effort_j: Floats


class _Way(NamedTuple):
    """A group's instance and node, and the seconds from where it begins to the loss, and back to the layer's end."""

    row: int
    node: int
    there_s: float
    back_s: float


def most_states(alive: Alive) -> int:
    """The states of all groups of a layer together, of the layer with the most."""
    return max(math.prod(map(len, groups)) for groups in alive)


def is_empty(alive: Alive) -> bool:
    """Whether some group has no state left."""
    return not all(len(states) for groups in alive for states in groups)


def everywhere(instances: Instances) -> Alive:
    """All states of a tree in which its instances can run, and private data stays where it is."""
    return tuple(
        tuple(_possible(instances, layer, group) for group in groups)
        for layer, groups in enumerate(instances.tree.groupings)
    )


def _possible(instances: Instances, layer: int, group: Group) -> Ints:
    life, found = instances.lives[group], []
    for first in range(life.born, layer + 1):
        able = instances.possible[life.row(first, layer)].copy()
        for feed in group if first == 0 else ():
            able &= np.isfinite(instances.data[feed][0])
        found.append(able)
    return np.flatnonzero(np.concatenate(found))


class JointTable:
    """``own[layer]``: the cost of a layer for the states of its groups, an axis a group; ``up_to``: of all up to it."""

    def __init__(self, instances: Instances, worth: Multipliers, alive: Alive, *, timed: bool = False) -> None:
        self._instances, self.tree, self.costs = instances, instances.tree, instances.costs
        self.worth, self.alive, self._joules = worth, alive, 0.0 if timed else 1.0
        self.nodes, self._depth = len(self.costs.nodes), len(alive)
        self._back_w = self._back_watts()
        self._cost_j, self._share = self._priced()
        self.own = [self._own(layer) for layer in range(self._depth)]
        self.up_to = [self.own[0]]
        for layer in range(1, self._depth):
            self.up_to.append(self.own[layer] + self._passed(layer))

    def total_j(self) -> float:
        """The cost of the cheapest mapping."""
        return float(self.up_to[-1].min())

    def through_j(self) -> Iterator[list[Floats]]:
        """For each layer, the last first, and each of its groups: the least cost of a mapping, by the group's state."""
        above = np.zeros_like(self.up_to[-1])
        for layer in reversed(range(self._depth)):
            total = self.up_to[layer] + above
            yield [total.min(axis=tuple(a for a in range(total.ndim) if a != k)) for k in range(total.ndim)]
            if layer:
                above = self._asked(layer, self.own[layer] + above)

    def cheapest(self) -> tuple[tuple[int, ...], ...]:
        """The states of the cheapest mapping, by layer."""
        found: list[tuple[int, ...]] = []
        at: tuple[int, ...] = ()
        for layer in reversed(range(self._depth)):
            total = self.up_to[layer]
            for k, into in enumerate(self.tree.parents[layer] if at else ()):
                total = total + _along(self._moves[layer][k][:, at[into]], k, total.ndim)
            at = tuple(int(each) for each in np.unravel_index(int(total.argmin()), total.shape))
            found.insert(0, tuple(int(self.alive[layer][k][each]) for k, each in enumerate(at)))
        return tuple(found)

    def usage(self) -> Usage:
        """What the cheapest mapping uses with the shares of these prices."""
        known, states, above = self._instances, self.cheapest(), list[_Way]()
        share, effort_j, exits_s = np.zeros(self.nodes), np.zeros(self.nodes), list[float]()
        ending_s = np.zeros(len(self.tree.groupings[0]))
        for layer in reversed(range(self._depth)):
            above = [self._way(layer, k, states, above) for k in range(len(states[layer]))]
            for way in above:
                if known.rows[way.row][2] == layer:
                    share[way.node] += self._share[way.row, way.node]
                    effort_j[way.node] += self._effort_j(way.row, way.node)
            exchange = known.exchanges[layer]
            if exchange is not None:
                low = exchange.low and max(states[layer]) < self.nodes
                there_s, more_s = self._exchanged(layer, exchange, [way.node for way in above], low=low)
                ending_s += more_s if low else 0.0
                exits_s[:0] = [way.back_s + 2 * float(each) for way, each in zip(above, there_s, strict=True) if layer]
        return Usage(self._lengths(above, ending_s, exits_s), share, effort_j)

    def _exchanged(self, layer: int, known: Exchange, nodes: list[int], *, low: bool) -> tuple[Floats, Floats]:
        """Seconds of the exchange of each group, one way, where the replicas meet most cheaply; see ``Exchange``."""
        at: Any = (slice(None), *nodes)
        meet = int(self._meetings_j(layer, known, low=low)[at].argmin())
        return known.there_s[meet][at], known.more_s[meet][at]

    def _lengths(self, below: list[_Way], ending_s: Floats, exits_s: list[float]) -> Lengths:
        """The ways of all feeds, from those of the first layer's groups and what the exchange adds to them."""
        known, feeds = self._instances, self.tree.feeds
        groups = [next(k for k, group in enumerate(self.tree.groupings[0]) if feed in group) for feed in feeds]
        ways, ending_s = [below[k] for k in groups], ending_s[groups]
        forward_s = [way.there_s + float(known.data[feed][0][way.node]) for way, feed in zip(ways, feeds, strict=True)]
        back_s = np.array([way.back_s for way in ways]) + ending_s
        update_s = [known.own_update_s[way.row, way.node] / self._share[way.row, way.node] for way in ways]
        after_s = np.array(update_s) + ending_s
        if not known.ends.waits:
            back_s, after_s = back_s + after_s, np.zeros(len(feeds))
        return Lengths(np.array(forward_s), back_s, np.array(exits_s), after_s)

    def _effort_j(self, row: int, node: int) -> float:
        return float(self._instances.effort_j[row, node] * self._share[row, node] ** (self.costs.exponent[node] - 1))

    def _way(self, layer: int, k: int, states: tuple[tuple[int, ...], ...], above: list[_Way]) -> _Way:
        """The way from a group to the loss and back."""
        known, group, state = self._instances, self.tree.groupings[layer][k], states[layer][k]
        node, life = state % self.nodes, known.lives[group]
        row, there_s, back_s = life.row(life.born + state // self.nodes, layer), 0.0, 0.0
        if above:
            into = self.tree.parents[layer][k]
            way_s = float(known.ways[layer, group][0][node, above[into].node]) / 2
            there_s, back_s = above[into].there_s + way_s, above[into].back_s + way_s
            if self._alone(layer, k) and states[layer + 1][into] == state:
                row = above[into].row
        share = float(self._share[row, node])
        if known.rows[row][2] == layer:
            there_s += float(known.work_s[0][row, node]) / share
        return _Way(row, node, there_s, back_s + float(known.layer_back_s[layer, row, node]) / share)

    def _meetings_j(self, layer: int, known: Exchange, *, low: bool) -> Floats:
        """What an exchange costs, by the replica where they meet and the node of each."""
        total = self._joules * known.joules
        if layer:
            total = total + np.tensordot(2 * self._exits_w[layer], known.there_s, (0, 1))
        if low:
            total = total + np.tensordot(self._ending_w, known.more_s, (0, 1))
        return _floats(total)

    @cached_property
    def _exits_w(self) -> dict[int, Floats]:
        """The price of a second of the ways that end with the exchange of a layer, for each of its groups."""
        found: dict[int, list[float]] = {}
        for (layer, _), part in zip(self._instances.exits, self.worth.split.exits.tolist(), strict=True):
            found.setdefault(layer, []).append(self.worth.time_w * part)
        return {layer: np.array(watts) for layer, watts in found.items()}

    @cached_property
    def _ending_w(self) -> Floats:
        """The price of a second of the first layer's exchange, one way, for each of its groups."""
        both = self.worth.time_w * (self.worth.split.backward + self.worth.split.after)
        index = {feed: k for k, feed in enumerate(self.tree.feeds)}
        return np.array([sum(both[index[feed]] for feed in group) for group in self.tree.groupings[0]])

    def _back_watts(self) -> dict[tuple[int, Group], float]:
        """The price of a second on the way back through each group of each layer."""
        split = self.worth.split
        watts = self.worth.time_w * (self._instances.passes @ np.concatenate((split.backward, split.exits)))
        places = [(layer, group) for layer, groups in enumerate(self.tree.groupings) for group in groups]
        return dict(zip(places, watts.tolist(), strict=True))

    def _priced(self) -> tuple[Floats, Floats]:
        known, split = self._instances, self.worth.split
        forward_s, update_s = known.work_s[0], known.own_update_s
        there_w, after_w = (
            self.worth.time_w * (known.holds @ parts)[:, None] for parts in (split.forward, split.after)
        )
        back_w = np.array(
            [[[self._back_w.get((k, group), 0.0)] for group, _, _ in known.rows] for k in range(self._depth)]
        )
        with np.errstate(invalid="ignore"):
            priced_j = there_w * forward_s + (back_w * known.layer_back_s).sum(axis=0) + after_w * known.low * update_s
            effort_j = self._joules * (1 + self.worth.energy) * known.effort_j
        self._there_w = {group: float(there_w[life.offset, 0]) for group, life in known.lives.items()}
        return known.priced(priced_j, effort_j, self.worth.share_j)

    def _alone(self, layer: int, k: int) -> bool:
        """Whether a group goes on in the layer above as it is."""
        return len(self.tree.children[layer][self.tree.parents[layer][k]]) == 1

    @cached_property
    def _moves(self) -> list[list[Floats]]:
        """By layer and group: what passing on its output costs from its states to those above, infinite for none."""
        return [
            [self._move(layer, k) for k in range(len(self.tree.groupings[layer]))] for layer in range(self._depth - 1)
        ]

    def _move(self, layer: int, k: int) -> Floats:
        group, below, above = self.tree.groupings[layer][k], *self._pair(layer, k)
        time_s, joules = self._instances.ways[layer, group]
        watts = (self._there_w[group] + self._back_w[layer, group]) / 2
        from_, to = below[:, None] % self.nodes, above % self.nodes
        passing = (priced(watts, time_s) + self._joules * joules)[from_, to]
        if not self._alone(layer, k):
            return passing
        begun = above // self.nodes == layer + 1 - self._instances.lives[group].born
        passing[(from_ == to) | ~begun] = np.inf
        passing[below[:, None] == above] = 0.0  # the same instance
        return passing

    def _pair(self, layer: int, k: int) -> tuple[Ints, Ints]:
        return self.alive[layer][k], self.alive[layer + 1][self.tree.parents[layer][k]]

    def _passed(self, layer: int) -> Floats:
        """The least cost of all below a layer, for each of its states."""
        parents, many = self.tree.parents[layer - 1], len(self.tree.groupings[layer])
        value = self.up_to[layer - 1]
        for k, move in enumerate(self._moves[layer - 1]):  # the axis of a child becomes that of where its output goes
            shape = value.shape
            value = (value.reshape(-1, shape[k], 1, math.prod(shape[k + 1 :])) + move[:, :, None]).min(axis=1)
            value = value.reshape(*shape[:k], move.shape[1], *shape[k + 1 :])
        letters = "abcdefghijklmnopqrstuvwxyz"
        return _floats(np.einsum(f"{''.join(letters[into] for into in parents)}->{letters[:many]}", value))

    def _asked(self, layer: int, value: Floats) -> Floats:
        """The least cost of a layer and all above it, for each state of the layer below."""
        order: list[int] = []
        for children in self.tree.children[layer - 1]:  # the first axis of what is left becomes those of its children
            joined = np.zeros(1)
            for a, k in enumerate(children):
                move = self._moves[layer - 1][k]
                shape = [len(move) if a == b else 1 for b in range(len(children))]
                joined = joined + move.reshape(*shape, move.shape[1])
            value = np.moveaxis(value, 0, -1)
            value = (value.reshape(*value.shape[:-1], *(1,) * len(children), value.shape[-1]) + joined).min(axis=-1)
            order += children
        return _floats(value.transpose(np.argsort(order)))

    def _own(self, layer: int) -> Floats:
        """What a layer costs for each state: in instances that go on, what it adds to them."""
        groups = self.tree.groupings[layer]
        total = np.zeros((1,) * len(groups))
        for k, group in enumerate(groups):
            total = total + _along(self._added_j(layer, group)[self.alive[layer][k]], k, len(groups))
        exchange = self._instances.exchanges[layer]
        return total if exchange is None else total + self._exchange_j(layer, exchange)

    def _added_j(self, layer: int, group: Group) -> Floats:
        life, cost_j = self._instances.lives[group], self._cost_j
        found = []
        for first in range(life.born, layer):
            before, after = cost_j[life.row(first, layer - 1)], cost_j[life.row(first, layer)]
            found.append(np.subtract(after, before, out=np.full_like(after, np.inf), where=np.isfinite(before)))
        found.append(cost_j[life.row(layer, layer)])
        if layer == 0:
            for feed in group:
                found[0] = found[0] + self._data_j(feed)
        return np.concatenate(found)

    def _data_j(self, feed: int) -> Floats:
        time_s, joules = self._instances.data[feed]
        return (
            priced(self.worth.time_w * float(self.worth.split.forward[self.tree.feeds.index(feed)]), time_s)
            + self._joules * joules
        )

    def _exchange_j(self, layer: int, known: Exchange) -> Floats:
        """What the exchange of a layer's gradients costs, wherever its replicas meet.

        It ends paths only where all replicas began with the first layer: these meet in one place for all their layers.
        """
        alive = self.alive[layer]
        nodes = [states % self.nodes for states in alive]
        total = self._meetings_j(layer, known, low=False).min(axis=0)[np.ix_(*nodes)]
        if known.low:
            low = [np.flatnonzero(states < self.nodes) for states in alive]
            ending = self._meetings_j(layer, known, low=True).min(axis=0)
            total[np.ix_(*low)] = ending[np.ix_(*(states[own] for states, own in zip(nodes, low, strict=True)))]
        return _floats(total)


def priced(watts: float, time_s: Floats) -> Floats:
    """Seconds at a price; infinite ones stay so where it is 0."""
    return watts * time_s if watts else np.where(np.isfinite(time_s), 0.0, np.inf)


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _along(values: Floats, axis: int, many: int) -> Floats:
    """A vector along one of many axes."""
    return values.reshape([-1 if each == axis else 1 for each in range(many)])
