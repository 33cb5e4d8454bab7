"""Every instance that a tree can have, on every node, and its cost at prices of time and of CPUs.

A group spans the layers from where it is formed to where it merges with others; an instance is a range of these layers
on one node. At prices of λ watts for a second forward, μ backward and κ joules for the whole CPU:

    cost = min over ρ of (λ w_forward + μ w_backward)/ρ + D w ρ^(γ−1) + κ ρ          convex in log ρ
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np

from palmette.plan.righttrain.data_amounts import Split
from palmette.plan.righttrain.geometric_program import LEAST_SHARE
from palmette.plan.righttrain.layer_costs import LayerCosts, TransferCost, min_update_fraction
from palmette.plan.righttrain.optimum.path_weights import PathEnds
from palmette.plan.righttrain.problem import Floats
from palmette.plan.righttrain.trees import Group, GroupingTree

_NEWTON_STEPS = 6


class GroupSpan(NamedTuple):
    """A group, its first and last layer, and the row of its first instance in the arrays."""

    group: Group
    first_layer: int
    last_layer: int
    offset: int

    def row(self, first: int, last: int) -> int:
        """The row of the instance of layers ``first`` to ``last``."""
        many, k = self.last_layer - self.first_layer + 1, first - self.first_layer
        return self.offset + k * many - k * (k - 1) // 2 + last - first


@dataclass(frozen=True)
class GradientExchange:
    """Replicas of a layer send gradients, summed per node, to one of them, the aggregator, and get the average back."""

    joules: Floats
    """By aggregator, and the node of each replica."""
    push_s: Floats
    """To the aggregator: by aggregator, sender, and the node of each replica."""
    pull_s: Floats
    """Back from it, likewise."""
    extra_push_s: Floats
    """The same where the first layer's gradients are sent with them: without the latency, which counts there."""
    extra_pull_s: Floats
    first_replicas: bool
    """Whether the replicas are those of the first layer."""

    @classmethod
    def of(
        cls, costs: LayerCosts, layer: int, many: int, size_bytes: float, *, first_replicas: bool
    ) -> GradientExchange:
        """The exchange of a layer in so many replicas."""
        nodes, problem = len(costs.nodes), costs.problem
        square = np.ix_(costs.nodes, costs.nodes)
        pair_j = size_bytes * (problem.j_per_byte + problem.j_per_byte.T)[square]
        pair_s = size_bytes * problem.s_per_byte[square]
        joules = np.zeros((many, *[nodes] * many))
        push_s, pull_s, extra_push_s, extra_pull_s = np.zeros((4, many, *joules.shape))
        for aggregator, k in permutations(range(many), 2):
            shape = [nodes if axis in (k, aggregator) else 1 for axis in range(many)]
            joules[aggregator] += pair_j.reshape(shape) * _first_on_its_node(k, aggregator, many, nodes)
            there_s, back_s = (pair_s, pair_s.T) if k < aggregator else (pair_s.T, pair_s)  # axes in their order
            latency_s = problem.latency_s[square].reshape(shape)
            extra_push_s[aggregator, k] += there_s.reshape(shape)
            extra_pull_s[aggregator, k] += back_s.reshape(shape)
            push_s[aggregator, k] += there_s.reshape(shape) + latency_s
            pull_s[aggregator, k] += back_s.reshape(shape) + latency_s
        extra = (push_s, pull_s) if layer == 0 else (extra_push_s, extra_pull_s)
        return cls(joules, push_s, pull_s, *extra, first_replicas)


@dataclass(frozen=True)
class PossibleInstances:
    """Arrays about the possible instances of a tree: one row per instance, one column per node of ``costs``."""

    tree: GroupingTree
    split: Split
    costs: LayerCosts

    @cached_property
    def spans(self) -> dict[Group, GroupSpan]:
        """The layers that each group spans."""
        found: dict[Group, GroupSpan] = {}
        offset = 0
        for first_layer, grouping in enumerate(self.tree.groupings):
            for group in grouping:
                if group in found:
                    continue
                last = max(layer for layer, groups in enumerate(self.tree.groupings) if group in groups)
                found[group] = GroupSpan(group, first_layer, last, offset)
                offset += (last - first_layer + 1) * (last - first_layer + 2) // 2
        return found

    @cached_property
    def rows(self) -> list[tuple[Group, int, int]]:
        """Group, first and last layer of each instance."""
        return [
            (group, first, last)
            for group, span in self.spans.items()
            for first in range(span.first_layer, span.last_layer + 1)
            for last in range(first, span.last_layer + 1)
        ]

    @cached_property
    def has_feed(self) -> Floats:
        """1 where a row's group holds a feed of the tree, else 0."""
        return np.array([[float(feed in group) for feed in self.tree.feeds] for group, _, _ in self.rows])

    @cached_property
    def samples_of(self) -> dict[int, int]:
        """Samples of an iteration from each feed."""
        return dict(zip(self.tree.feeds, self.split, strict=True))

    @cached_property
    def samples(self) -> dict[Group, int]:
        """Samples of an iteration that reach a group."""
        return {group: sum(self.samples_of[feed] for feed in group) for group in self.spans}

    @cached_property
    def transfers(self) -> dict[tuple[int, Group], TransferCost]:
        """What a group's output and its gradient take between any two nodes, by layer and group."""
        return {
            (layer, group): self.costs.transfer(layer, self.samples[group])
            for layer, groups in enumerate(self.tree.groupings)
            for group in groups
        }

    @cached_property
    def input_transfers(self) -> dict[int, tuple[Floats, Floats]]:
        """Seconds and joules of each feed's data to each node."""
        return {feed: self.costs.input_transfer(feed, many) for feed, many in self.samples_of.items()}

    @cached_property
    def exchanges(self) -> list[GradientExchange | None]:
        """The exchange of each layer's gradients, None where there is none."""
        sizes = self.costs.problem.task.evaluator.sizes()
        weights = [sizes.exchanged_bytes([(layer, layer)]) for layer in range(1, len(self.tree.groupings) + 1)]
        found: list[GradientExchange | None] = []
        for layer, (groups, size) in enumerate(zip(self.tree.groupings, weights, strict=True)):
            first_replicas, many = groups == self.tree.groupings[0], len(groups)
            found.append(
                GradientExchange.of(self.costs, layer, many, size, first_replicas=first_replicas)
                if many > 1 and size
                else None
            )
        return found

    @cached_property
    def exits(self) -> list[tuple[int, int]]:
        """Layer and group of each exchange but the first layer's: paths may end there."""
        return [
            (layer, k)
            for layer, exchange in enumerate(self.exchanges)
            for k in range(len(self.tree.groupings[layer]) if exchange is not None and layer else 0)
        ]

    @cached_property
    def ends(self) -> PathEnds:
        """Where paths may begin and end; feeds in the order of the tree."""
        root = {feed: k for k, group in enumerate(self.tree.groupings[-1]) for feed in group}
        return PathEnds(
            feed_roots=np.array([root[feed] for feed in self.tree.feeds], dtype=np.int64),
            exit_roots=np.array([root[self.tree.groupings[layer][k][0]] for layer, k in self.exits], dtype=np.int64),
            roots=len(self.tree.groupings[-1]),
            averages_first_layer=self.exchanges[0] is not None,
        )

    @cached_property
    def on_return_path(self) -> Floats:
        """1 where the backward path to a feed or an exit goes through a group of a layer, else 0.

        Rows: layers and their groups; columns: feeds, then exits.
        """
        places = [(layer, group) for layer, groups in enumerate(self.tree.groupings) for group in groups]
        ends: list[tuple[int, Group]] = [(0, (feed,)) for feed in self.tree.feeds]
        ends += [(layer, self.tree.groupings[layer][k]) for layer, k in self.exits]
        found = [[float(layer >= end and set(inside) <= set(group)) for end, inside in ends] for layer, group in places]
        return np.array(found)

    @cached_property
    def starts_at_input(self) -> Floats:
        """1 for instances that start with the first layer, 0 for others; a column."""
        return np.array([[float(first == 0)] for _, first, _ in self.rows])

    @cached_property
    def work_s(self) -> tuple[Floats, Floats, Floats]:
        """Seconds of each instance with the whole CPU: forward, backward, and the least part of the update."""
        parts = [self.costs.calls_s(first, last, self.samples[group]) for group, first, last in self.rows]
        forward, backward, _ = (np.array(each) for each in zip(*parts, strict=True))
        return forward, backward, self._updates_s(min_update_fraction)

    @cached_property
    def own_update_s(self) -> Floats:
        """Seconds of each instance's update of layers that no other instance holds: its path surely includes them."""
        return self._updates_s(lambda replicas: float(replicas == 1))

    def _updates_s(self, part: Callable[[int], float]) -> Floats:
        parts = [part(len(groups)) for groups in self.tree.groupings]
        return np.array(
            [
                sum(
                    (parts[layer] * self.costs.update_s(layer) for layer in range(first, last + 1) if parts[layer]),
                    start=np.zeros(len(self.costs.nodes)),  # 0 times a layer that a node cannot hold is 0
                )
                for _, first, last in self.rows
            ]
        )

    @cached_property
    def layer_backward_s(self) -> Floats:
        """Seconds of the backward call of each layer of each instance, with the whole CPU, [layer, instance, node]."""
        found = np.zeros((len(self.tree.groupings), len(self.rows), len(self.costs.nodes)))
        for row, (group, first, last) in enumerate(self.rows):
            for layer in range(first, last + 1):
                found[layer, row] = self.costs.calls_s(layer, layer, self.samples[group])[1]
        return found

    @cached_property
    def dynamic_j(self) -> Floats:
        """Dynamic energy of each instance with the whole CPU."""
        return self.costs.dynamic_w * sum(self.work_s)

    @cached_property
    def feasible(self) -> np.ndarray:
        """Whether a node can compute all layers of an instance."""
        return np.isfinite(self.dynamic_j) & np.isfinite(self.work_s[0])

    def min_cost(self, time_j: Floats, dynamic_j: Floats, cpu_j: Floats) -> tuple[Floats, Floats]:
        """The least cost of each instance and its optimal share; ``time_j`` is its work at the price of time."""
        limit, power = self.costs.limit, self.costs.exponent - 1
        a, c = np.where(self.feasible, time_j, 0.0), np.where(self.feasible, dynamic_j, 0.0)
        share = np.clip(_optimal_share(a, power * c, power, cpu_j), LEAST_SHARE, limit)
        cost = a / share + c * share**power + cpu_j * share
        return np.where(self.feasible, cost, np.inf), share


def _first_on_its_node(k: int, aggregator: int, many: int, nodes: int) -> Floats:
    """1 where no replica before this one sends from the same node, by the node of each replica; else 0."""
    found = np.ones([1] * many)
    for other in range(k):
        if other != aggregator:
            found = found * (1 - np.eye(nodes)).reshape([nodes if axis in (other, k) else 1 for axis in range(many)])
    return found


def _optimal_share(a: Floats, c: Floats, power: Floats, k: Floats) -> Floats:
    """ρ such that a/ρ = c ρ^power + k ρ; infinite where c and k are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        by_energy = np.where(c > 0, (a / c) ** (1 / (power + 1)), np.inf)
        by_share = np.where(k > 0, np.sqrt(a / k), np.inf)
    share = np.minimum(by_energy, by_share)
    both = np.isfinite(by_energy) & np.isfinite(by_share) & (share > 0)
    if not both.any():
        return share
    y = np.log(np.where(both, share, 1.0))
    for _ in range(_NEWTON_STEPS):
        fall, rise, line = a * np.exp(-y), c * np.exp(power * y), k * np.exp(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (rise + line - fall) / (fall + power * rise + line)
        y = y - np.where(both, step, 0.0)
    return np.where(both, np.exp(y), share)
