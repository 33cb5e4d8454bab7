"""Trees and sets of nodes that differ only in the names of equal machines: one of each is enough.

Two nodes are equal if swapping them changes nothing: times, power, limits, memory, and the routes to all other nodes.
Two sources are equal if their nodes and their data are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations, product

import numpy as np

from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.trees import Group, GroupingTree, RankedTree, all_trees_generated, ranked_trees


def distinct_trees(problem: RightTrainProblem) -> list[RankedTree]:
    """The ranked trees; where all are generated, one of those that differ only in the names of equal sources."""
    trees = ranked_trees(problem)
    return list(Symmetry(problem).distinct(trees)) if all_trees_generated(problem) else trees


class Symmetry:
    """The equal nodes and feeds of a problem."""

    def __init__(self, problem: RightTrainProblem) -> None:
        self._problem = problem
        self.node_classes = _representatives(range(len(problem.names)), self._same_node)
        feeds = range(len(problem.feed_nodes))
        apart = len(set(problem.feed_nodes)) == len(feeds)
        self._feed_classes = _classes_of(_representatives(feeds, self._same_feed) if apart else list(feeds))

    def _same_node(self, a: int, b: int) -> bool:
        problem, order = self._problem, list(range(len(self._problem.names)))
        order[a], order[b] = b, a
        single = (*problem.times(), problem.idle_w, problem.dynamic_w, problem.exponent, problem.limit)
        nodes = [problem.task.cluster.nodes[problem.names[k]] for k in (a, b)]
        return (
            all(np.array_equal(each[a], each[b]) for each in single)
            and all(
                np.array_equal(each, each[np.ix_(order, order)])
                for each in (problem.s_per_byte, problem.latency_s, problem.j_per_byte)
            )
            and nodes[0].memory_bytes == nodes[1].memory_bytes
            and nodes[0].limits == nodes[1].limits
        )

    def _same_feed(self, a: int, b: int) -> bool:
        problem = self._problem
        return (
            self.node_classes[problem.feed_nodes[a]] == self.node_classes[problem.feed_nodes[b]]
            and problem.feed_samples[a] == problem.feed_samples[b]
            and problem.private[a] == problem.private[b]
            and problem.feed_worths[a] == problem.feed_worths[b]
        )

    def distinct(self, trees: Iterable[RankedTree]) -> Iterator[RankedTree]:
        """The first of each set of trees that differ only in the names of equal sources."""
        seen: set[GroupingTree] = set()
        for ranked in trees:
            if ranked.tree not in seen:
                seen.update(self._images(ranked.tree))
                yield ranked

    def _images(self, tree: GroupingTree) -> Iterator[GroupingTree]:
        """A tree under all permutations of equal feeds; how a batch is split is decided later, so it may differ."""
        for orders in product(*(permutations(each) for each in self._feed_classes)):
            new = {
                a: b
                for each, order in zip(self._feed_classes, orders, strict=True)
                for a, b in zip(each, order, strict=True)
            }
            yield GroupingTree(
                tuple(tuple(sorted(_renamed(group, new) for group in groups)) for groups in tree.groupings)
            )

    def node_set_key(self, tree: GroupingTree, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """A key that sets of nodes share if they differ only in the names of equal nodes."""
        own = {self._problem.feed_nodes[feed] for feed in tree.feeds}
        return tuple(sorted(self.node_classes[node] for node in nodes if node not in own))


def _renamed(group: Group, new: dict[int, int]) -> Group:
    return tuple(sorted(new[feed] for feed in group))


def _representatives(things: Iterable[int], same: Callable[[int, int], bool]) -> list[int]:
    """For each item the first that is equal to it."""
    node_classes: list[int] = []
    for thing in things:
        node_classes.append(next((k for k in dict.fromkeys(node_classes) if same(k, thing)), thing))
    return node_classes


def _classes_of(node_classes: list[int]) -> list[list[int]]:
    return [[k for k, kind in enumerate(node_classes) if kind == each] for each in dict.fromkeys(node_classes)]
