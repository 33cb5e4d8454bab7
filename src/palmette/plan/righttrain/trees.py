"""Instance trees: a grouping of the feeds in use per layer, never finer from the sources to the loss.

A group of a layer is computed by one instance. With few sources, all chains of groupings for any subset of sources are
generated; with many, groupings are taken along one sequence of merges of nearest groups, and change at most once along
the layers, so that their number grows polynomially.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement

import numpy as np

from palmette.plan.righttrain.epochs import Schedule
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.sample_ways import sample_ways

Group = tuple[int, ...]
Grouping = tuple[Group, ...]
MAX_TREES = 3000
"""More chains than these are not enumerated."""
_MAX_LISTED_FEEDS = 5


@dataclass(frozen=True)
class GroupingTree:
    """The grouping of each layer."""

    groupings: tuple[Grouping, ...]

    @cached_property
    def feeds(self) -> Group:
        """The feeds in use."""
        return tuple(sorted(feed for group in self.groupings[0] for feed in group))

    @property
    def replicas(self) -> int:
        """The number of instances of the first layer."""
        return len(self.groupings[0])

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """For each layer but the last, the index of each group's parent in the next layer."""
        found = []
        for below, above in zip(self.groupings, self.groupings[1:], strict=False):
            of_feed = {feed: k for k, group in enumerate(above) for feed in group}
            found.append(tuple(of_feed[group[0]] for group in below))
        return tuple(found)

    @cached_property
    def children(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each layer but the first, the indices of each group's children in the layer before."""
        return tuple(
            tuple(tuple(k for k, into in enumerate(parents) if into == group) for group in range(len(above)))
            for parents, above in zip(self.parents, self.groupings[1:], strict=True)
        )


@dataclass(frozen=True)
class RankedTree:
    """A tree, its schedule with the data of each feed, and its processing by equation (5), in seconds."""

    tree: GroupingTree
    schedule: Schedule
    processing_s: float


def ranked_trees(problem: RightTrainProblem) -> list[RankedTree]:
    """The trees that can reach the loss, least processing first; ties go to fewer instances.

    Their batches are in proportion to what the sources own.
    """
    found = []
    for tree in generate_trees(problem):
        schedule = problem.schedule(tree.feeds, tree.replicas, problem.proportional_split(tree.feeds))
        if schedule is not None:
            found.append(RankedTree(tree, schedule, processing_s(problem, tree)))
    return sorted(found, key=lambda each: (each.processing_s, sum(map(len, each.tree.groupings))))


def processing_s(problem: RightTrainProblem, tree: GroupingTree) -> float:
    """Equation (5): epochs with all data × the processing of what enters each instance, on the mean node.

    r(l) is the mean node's seconds for a byte that enters layer l, and the product of the q(m) turns a source's bytes
    into those that enter it; so each sample counts a layer's seconds once, in whichever instance.
    """
    seconds = problem.forward_s[problem.compute_nodes] + problem.backward_s[problem.compute_nodes]
    sample_s = float(np.mean(np.where(np.isfinite(seconds), seconds, 0.0), axis=0).sum())
    samples = sum(problem.feed_samples[feed] for feed in tree.feeds)
    worth = sum(problem.feed_worths[feed] * problem.feed_samples[feed] for feed in tree.feeds)
    fraction = worth / problem.target.samples
    epochs = problem.target.learning.least_epochs(problem.target.loss, fraction, tree.replicas)
    return math.ceil(epochs * (1 - 1e-12)) * samples * sample_s


def generate_trees(problem: RightTrainProblem) -> list[GroupingTree]:
    """All trees, or, with many sources, those along a sequence of merges."""
    listed = _all_trees(problem)
    return _trees_along_merges(problem) if listed is None else listed


def all_trees_generated(problem: RightTrainProblem) -> bool:
    """Whether ``generate_trees`` returns all trees."""
    return _all_trees(problem) is not None


def _all_trees(problem: RightTrainProblem) -> list[GroupingTree] | None:
    """All trees; None where they are too many."""
    feeds = range(len(problem.feed_nodes))
    if len(feeds) > _MAX_LISTED_FEEDS:
        return None
    listed: list[GroupingTree] = []
    for used in _feed_subsets(feeds, problem.task.batch):
        for chain in _chains(_partitions(used), problem.depth):
            listed.append(GroupingTree(chain))
            if len(listed) > MAX_TREES:
                return None
    return listed


def _feed_subsets(feeds: Sequence[int], batch: int) -> Iterator[Group]:
    """The subsets of feeds that may be in use, at least one sample of a batch each, largest first."""
    for many in range(min(len(feeds), batch), 0, -1):
        yield from combinations(feeds, many)


def _partitions(items: Group) -> list[Grouping]:
    """All partitions of a set, the finest last."""
    if not items:
        return [()]
    first, rest = items[0], items[1:]
    found = []
    for part in _partitions(rest):
        for k, group in enumerate(part):
            found.append((*part[:k], (first, *group), *part[k + 1 :]))
        found.append(((first,), *part))
    return [tuple(sorted(part)) for part in found]


def _chains(partitions: Iterable[Grouping], depth: int) -> Iterator[tuple[Grouping, ...]]:
    """All sequences of partitions, one per layer, none finer than the one before."""
    listed = list(partitions)
    coarser = {part: [other for other in listed if _is_coarser(other, part)] for part in listed}

    def grow(chain: tuple[Grouping, ...]) -> Iterator[tuple[Grouping, ...]]:
        if len(chain) == depth:
            yield chain
            return
        for after in coarser[chain[-1]] if chain else listed:
            yield from grow((*chain, after))

    yield from grow(())


def _is_coarser(coarse: Grouping, fine: Grouping) -> bool:
    return all(any(set(group) <= set(other) for other in coarse) for group in fine)


def _trees_along_merges(problem: RightTrainProblem) -> list[GroupingTree]:
    """Trees of one or two groupings along one sequence of merges, for a few choices of sources."""
    cuts, found = _cut_choices(problem), []
    for used in feed_choices(problem):
        merges = _merge_sequence(problem, used)
        levels = [merges[len(used) - many] for many in _group_counts(len(used))]
        for fine, coarse in combinations_with_replacement(range(len(levels)), 2):
            pair = levels[len(levels) - 1 - fine], levels[len(levels) - 1 - coarse]
            for cut in cuts if fine != coarse else cuts[:1]:
                groupings = tuple(pair[0] if layer < cut else pair[1] for layer in range(problem.depth))
                found.append(GroupingTree(groupings))
    return list(dict.fromkeys(found))


def _group_counts(most: int) -> list[int]:
    """1, 2, 4, … and the most; above 8, every second power of two."""
    step = 1 if most <= 8 else 2
    return sorted({2**k for k in range(0, most.bit_length(), step) if 2**k <= most} | {most})


def _cut_choices(problem: RightTrainProblem) -> list[int]:
    """Layers after which groups may merge: those with the smallest outputs, and some evenly spaced."""
    depth, outputs = problem.depth, problem.output_bytes
    smallest = sorted(range(1, depth), key=lambda k: outputs[k])[:2]
    return sorted({*smallest, *range(1, depth, max(1, depth // 3))}) or [depth]


def feed_choices(problem: RightTrainProblem) -> list[Group]:
    """Choices of feeds: all, fewer and fewer of the best by two measures, and each alone.

    The measures: samples per watt of idle power, and the energy of a sample, with the idle power of its source, by its
    worth. A feed that is far from all others, or behind a slow link, comes last by the second.
    """
    ways, idle_w = sample_ways(problem), problem.idle_w[problem.feed_nodes]
    measures = (idle_w / problem.feed_samples, (ways.joules + idle_w * ways.seconds) / problem.feed_worths)
    most = min(len(idle_w), problem.task.batch)
    found: list[Group] = []
    for measure in measures:
        order = np.argsort(measure, kind="stable").tolist()
        found += [tuple(sorted(order[:many])) for many in reversed(_group_counts(most)) if many > 1]
    return list(dict.fromkeys([*found, *((feed,) for feed in range(len(idle_w)))]))


def _merge_sequence(problem: RightTrainProblem, feeds: Group) -> list[Grouping]:
    """Agglomerative clustering with complete linkage: groupings from one group per feed to a single group."""
    nodes = [problem.feed_nodes[feed] for feed in feeds]
    distance = (problem.latency_s + problem.s_per_byte * problem.output_bytes[0])[np.ix_(nodes, nodes)]
    np.fill_diagonal(distance, np.inf)
    groups: list[Group] = [(feed,) for feed in feeds]
    found: list[Grouping] = [tuple(groups)]
    while len(groups) > 1:
        a, b = sorted(divmod(int(np.argmin(distance)), len(groups)))
        groups[a] = tuple(sorted(groups[a] + groups.pop(b)))
        distance[a] = np.maximum(distance[a], distance[b])
        distance[:, a] = distance[a]
        distance[a, a] = np.inf
        distance = np.delete(np.delete(distance, b, 0), b, 1)
        found.append(tuple(sorted(groups)))
        order = sorted(range(len(groups)), key=groups.__getitem__)
        groups, distance = [groups[k] for k in order], distance[np.ix_(order, order)]
    return found
