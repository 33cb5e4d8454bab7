"""Trees next to a mapped tree: groups that merge a layer earlier or later, and a source more.

Where there are too many trees to list them all, these lead from a listed one to others.
"""

from __future__ import annotations

from collections.abc import Iterator

from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.trees import Group, GroupingTree

MappedGroups = tuple[GroupingTree, Mapping]


def with_other_merges(tree: GroupingTree, mapping: Mapping) -> Iterator[MappedGroups]:
    """The same with one layer grouped as the layer before it or after it, on those nodes."""
    for layer, (below, above) in enumerate(zip(tree.groupings, tree.groupings[1:], strict=False)):
        if below != above:
            parents = tuple(mapping[layer + 1][into] for into in tree.parents[layer])
            yield _with_layer(tree, mapping, layer, above, mapping[layer + 1])
            for nodes in dict.fromkeys((mapping[layer], parents)):
                yield _with_layer(tree, mapping, layer + 1, below, nodes)


def with_another_source(problem: RightTrainProblem, tree: GroupingTree, mapping: Mapping) -> Iterator[MappedGroups]:
    """The same with one source more: beside another one that it then follows, on its own node where they are apart."""
    unused = [feed for feed in range(len(problem.feed_nodes)) if feed not in tree.feeds]
    for feed in unused:
        follows = min(tree.feeds, key=lambda other: _distance_s(problem, feed, other))
        apart = _added(tree, mapping, feed, follows, problem.feed_nodes[feed])
        together = _added(tree, mapping, feed, follows, None)
        yield from dict.fromkeys((apart, together))


def _with_layer(
    tree: GroupingTree, mapping: Mapping, layer: int, groups: tuple[Group, ...], nodes: tuple[int, ...]
) -> MappedGroups:
    groupings = (*tree.groupings[:layer], groups, *tree.groupings[layer + 1 :])
    return GroupingTree(groupings), (*mapping[:layer], nodes, *mapping[layer + 1 :])


def _distance_s(problem: RightTrainProblem, feed: int, other: int) -> float:
    between = problem.feed_nodes[feed], problem.feed_nodes[other]
    return float(problem.latency_s[between] + problem.s_per_byte[between] * problem.output_bytes[0])


def _added(tree: GroupingTree, mapping: Mapping, feed: int, follows: int, own: int | None) -> MappedGroups:
    """A mapped tree with a feed more, in the groups of another; apart from it on ``own`` where that one is alone."""
    groupings, nodes = [], []
    for groups, placed in zip(tree.groupings, mapping, strict=True):
        pairs = list(zip(groups, placed, strict=True))
        if own is not None and (follows,) in groups and len(groups) > 1:
            pairs.append(((feed,), own))
        else:
            pairs = [(tuple(sorted((*group, feed))) if follows in group else group, node) for group, node in pairs]
        pairs.sort()
        groupings.append(tuple(group for group, _ in pairs))
        nodes.append(tuple(node for _, node in pairs))
    return GroupingTree(tuple(groupings)), tuple(nodes)
