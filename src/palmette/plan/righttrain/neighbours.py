"""Plans next to a plan: an instance or a layer on another node, other data, a source less or more, other groups.

A node may also pass all that it computes on to another. Where few nodes compute, all replicas of a layer also move
together, and each root may come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from palmette.plan.core.samples import apportion
from palmette.plan.righttrain.cpu_allocation import MappedTree
from palmette.plan.righttrain.data_amounts import Split
from palmette.plan.righttrain.layout import Mapping, mapped_instances
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.regrouping import with_another_source, with_other_merges
from palmette.plan.righttrain.trees import Group, GroupingTree

_MAX_MOVES = 1000
"""Above these, moves of single layers are skipped."""
_MANY_FEEDS = 6
"""Above these, samples move to the next feeds only."""


@dataclass(frozen=True)
class Neighbours:
    """The plans next to others of one problem."""

    problem: RightTrainProblem
    few_nodes: bool

    def of(self, candidate: MappedTree) -> Iterator[MappedTree]:
        """All plans next to one."""
        yield from (
            replace(candidate, first_root=first_root)
            for first_root in distinct_roots(candidate.mapping)
            if first_root != candidate.first_root
        )
        yield from self._on_other_nodes(candidate)
        yield from self.with_other_amounts(candidate)
        yield from self.without_a_source(candidate)
        yield from self._with_other_trees(candidate)

    def with_other_amounts(self, candidate: MappedTree) -> Iterator[MappedTree]:
        """Samples of a batch from another source: most of them, some or one."""
        feeds = candidate.tree.feeds
        for k in range(len(feeds)):
            for other in self._receivers(k, len(feeds)):
                many = candidate.schedule.split[k]
                for moved in sorted({each for each in (many - 1, many // 2, many // 4, 1) if 0 < each < many})[::-1]:
                    split = list(candidate.schedule.split)
                    split[k], split[other] = split[k] - moved, split[other] + moved
                    yield from self._with_split(candidate, tuple(split))

    def without_a_source(self, candidate: MappedTree) -> Iterator[MappedTree]:
        """The same with one source less, whichever it is."""
        if len(candidate.tree.feeds) > 1:
            for feed in candidate.tree.feeds:
                yield from self._without(candidate, feed)

    def _with_other_trees(self, candidate: MappedTree) -> Iterator[MappedTree]:
        """Groups that merge elsewhere, and a source more: what the list of trees may not have."""
        tree, batch = candidate.tree, self.problem.task.batch
        for other, mapping in with_other_merges(tree, candidate.mapping):
            yield from self._with_tree(other, mapping, candidate.schedule.split)
        owned = sum(self.problem.owned_by(tree.feeds))
        for other, mapping in with_another_source(self.problem, tree, candidate.mapping):
            (added,) = set(other.feeds) - set(tree.feeds)
            parts = dict(zip(tree.feeds, candidate.schedule.split, strict=True))
            parts[added] = max(1, round(batch * self.problem.feed_samples[added] / owned))
            if len(parts) <= batch:
                yield from self._with_tree(other, mapping, tuple(apportion(batch, [parts[f] for f in other.feeds])))

    def _with_tree(self, tree: GroupingTree, mapping: Mapping, split: Split) -> Iterator[MappedTree]:
        """Another tree with a split, each root first."""
        schedule = self.problem.schedule(tree.feeds, tree.replicas, split) if min(split) > 0 else None
        if schedule is not None:
            yield from (MappedTree(tree, mapping, schedule, first_root) for first_root in distinct_roots(mapping))

    def _receivers(self, k: int, many: int) -> list[int]:
        if many <= _MANY_FEEDS:
            return [other for other in range(many) if other != k]
        return [(k + step) % many for step in (1, 2, many - 1)]

    def _with_split(self, candidate: MappedTree, split: Split) -> Iterator[MappedTree]:
        tree = candidate.tree
        schedule = self.problem.schedule(tree.feeds, tree.replicas, split)
        if schedule is not None:
            yield replace(candidate, schedule=schedule)

    def _without(self, candidate: MappedTree, left_out: int) -> Iterator[MappedTree]:
        """The same without a source, whose samples of a batch come from the others in proportion to theirs."""
        tree, mapping, first_root = _pruned(candidate, left_out)
        old = dict(zip(candidate.tree.feeds, candidate.schedule.split, strict=True))
        parts = [old[feed] for feed in tree.feeds]
        largest = parts.index(max(parts))
        splits = {
            self.problem.proportional_split(tree.feeds),
            tuple(each + (k == largest) * old[left_out] for k, each in enumerate(parts)),
        }
        for split in sorted(splits):
            schedule = self.problem.schedule(tree.feeds, tree.replicas, split)
            if schedule is not None:
                yield MappedTree(tree, mapping, schedule, first_root)

    def _on_other_nodes(self, candidate: MappedTree) -> Iterator[MappedTree]:
        tree, mapping = candidate.tree, candidate.mapping
        places = everywhere = [(layer, k) for layer, nodes in enumerate(mapping) for k in range(len(nodes))]
        if len(places) * len(self.problem.compute_nodes) > _MAX_MOVES:
            places = []
        blocks = [
            [(layer, tree.groupings[layer].index(part.group)) for layer in range(part.first, part.last + 1)]
            for part in mapped_instances(tree, mapping, candidate.first_root)
        ]
        rows = [[(layer, k) for k in range(len(nodes))] for layer, nodes in enumerate(mapping) if len(nodes) > 1]
        used = dict.fromkeys(node for nodes in mapping for node in nodes)
        emptied = [[(layer, k) for layer, k in everywhere if mapping[layer][k] == node] for node in used]
        emptied = [block for block in emptied if block not in blocks]
        for block in [*blocks, *emptied, *([place] for place in places), *(rows if self.few_nodes else ())]:
            for node in self.problem.compute_nodes:
                changed = [list(nodes) for nodes in mapping]
                for layer, k in block:
                    changed[layer][k] = node
                moved = tuple(map(tuple, changed))
                for first_root in distinct_roots(moved) if self.few_nodes else [candidate.first_root]:
                    yield replace(candidate, mapping=moved, first_root=first_root)


def distinct_roots(mapping: Mapping) -> list[int]:
    """The roots that may come first, one per node."""
    return sorted({node: first_root for first_root, node in reversed(list(enumerate(mapping[-1])))}.values())


def _pruned(candidate: MappedTree, left_out: int) -> tuple[GroupingTree, Mapping, int]:
    """A mapped tree without a feed, and the index of the root that comes first."""
    groupings, mapping = [], []
    root = candidate.tree.groupings[-1][candidate.first_root]
    for groups, nodes in zip(candidate.tree.groupings, candidate.mapping, strict=True):
        pairs = [(_rest(group, left_out), node) for group, node in zip(groups, nodes, strict=True)]
        kept = sorted(pair for pair in pairs if pair[0])
        groupings.append(tuple(group for group, _ in kept))
        mapping.append(tuple(node for _, node in kept))
    first = _rest(root, left_out)
    return GroupingTree(tuple(groupings)), tuple(mapping), groupings[-1].index(first) if first else 0


def _rest(group: Group, left_out: int) -> Group:
    return tuple(feed for feed in group if feed != left_out)
