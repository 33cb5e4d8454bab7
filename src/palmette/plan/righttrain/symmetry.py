"""Trees and sets of nodes that are the same but for the names of equal machines: one of each is enough.

Two nodes are equal where nothing changes if they change places: times, power, limits, memory, and every way to every
other node; two sources are where their nodes are, and what they own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations, product

import numpy as np

from palmette.plan.righttrain.problem import Ground
from palmette.plan.righttrain.trees import Group, Ranked, Tree, all_listed, ranked_trees


def different_trees(ground: Ground) -> list[Ranked]:
    """The ranked trees; where all are listed, one of each that differ in the names of equal sources only."""
    trees = ranked_trees(ground)
    return list(Symmetry(ground).different(trees)) if all_listed(ground) else trees


class Symmetry:
    """The equal nodes and feeds of a ground."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.kinds = _kinds(range(len(ground.names)), self._same_node)
        feeds = range(len(ground.feed_nodes))
        apart = len(set(ground.feed_nodes)) == len(feeds)
        self._classes = _classes(_kinds(feeds, self._same_feed) if apart else list(feeds))

    def _same_node(self, a: int, b: int) -> bool:
        ground, order = self._ground, list(range(len(self._ground.names)))
        order[a], order[b] = b, a
        single = (*ground.times(), ground.idle_w, ground.busy_w, ground.exponent, ground.limit)
        nodes = [ground.task.cluster.nodes[ground.names[k]] for k in (a, b)]
        return (
            all(np.array_equal(each[a], each[b]) for each in single)
            and all(
                np.array_equal(each, each[np.ix_(order, order)])
                for each in (ground.byte_s, ground.latency_s, ground.byte_j)
            )
            and nodes[0].memory_bytes == nodes[1].memory_bytes
            and nodes[0].limits == nodes[1].limits
        )

    def _same_feed(self, a: int, b: int) -> bool:
        ground = self._ground
        return (
            self.kinds[ground.feed_nodes[a]] == self.kinds[ground.feed_nodes[b]]
            and ground.feed_samples[a] == ground.feed_samples[b]
            and ground.private[a] == ground.private[b]
        )

    def different(self, trees: Iterable[Ranked]) -> Iterator[Ranked]:
        """Of trees that are the same but for the names of equal sources, the first."""
        seen: set[Tree] = set()
        for ranked in trees:
            if ranked.tree not in seen:
                seen.update(self._images(ranked.tree))
                yield ranked

    def _images(self, tree: Tree) -> Iterator[Tree]:
        """A tree with equal feeds exchanged, where each still gives as many samples of a batch."""
        samples = self._ground.batch_of(tree.feeds)
        for orders in product(*(permutations(each) for each in self._classes)):
            new = {
                a: b
                for each, order in zip(self._classes, orders, strict=True)
                for a, b in zip(each, order, strict=True)
            }
            image = Tree(tuple(tuple(sorted(_renamed(group, new) for group in groups)) for groups in tree.groupings))
            given = self._ground.batch_of(image.feeds)
            if all(given[new[feed]] == many for feed, many in samples.items()):
                yield image

    def key(self, tree: Tree, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """The same for sets of nodes in use that differ in the names of equal nodes only."""
        own = {self._ground.feed_nodes[feed] for feed in tree.feeds}
        return tuple(sorted(self.kinds[node] for node in nodes if node not in own))


def _renamed(group: Group, new: dict[int, int]) -> Group:
    return tuple(sorted(new[feed] for feed in group))


def _kinds(things: Iterable[int], same: Callable[[int, int], bool]) -> list[int]:
    """For each thing the first that is the same."""
    kinds: list[int] = []
    for thing in things:
        kinds.append(next((k for k in dict.fromkeys(kinds) if same(k, thing)), thing))
    return kinds


def _classes(kinds: list[int]) -> list[list[int]]:
    return [[k for k, kind in enumerate(kinds) if kind == each] for each in dict.fromkeys(kinds)]
