"""From a tree and a mapping to instances: consecutive layers of one group on one node are one instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from palmette.plan.righttrain.epochs import Schedule
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.trees import Group, GroupingTree
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance

Mapping = tuple[tuple[int, ...], ...]
"""The node of each group, by layer."""


@dataclass(frozen=True)
class MappedInstance:
    """An instance: its layers from 0, the feeds that reach it, its node, and the instance that takes its output."""

    first: int
    last: int
    group: Group
    node: int
    into: int | None


def mapped_instances(tree: GroupingTree, mapping: Mapping, first_root: int = 0) -> list[MappedInstance]:
    """The instances of a mapped tree, parents before children; the root ``first_root`` comes first."""
    mapped: list[MappedInstance] = []
    above: dict[int, int] = {}
    depth = len(mapping)
    for layer in reversed(range(depth)):
        here: dict[int, int] = {}
        order = range(len(mapping[layer]))
        for k in [first_root, *(k for k in order if k != first_root)] if layer == depth - 1 else order:
            group, node = tree.groupings[layer][k], mapping[layer][k]
            into = above[tree.parents[layer][k]] if layer < depth - 1 else None
            if into is not None and mapped[into].group == group and mapped[into].node == node:
                mapped[into] = MappedInstance(layer, mapped[into].last, group, node, mapped[into].into)
                here[k] = into
            else:
                here[k] = len(mapped)
                mapped.append(MappedInstance(layer, layer, group, node, into))
        above = here
    return mapped


def build_phase(
    problem: RightTrainProblem,
    mapped: Sequence[MappedInstance],
    shares: Sequence[float],
    schedule: Schedule,
) -> Phase:
    """The phase of instances with their CPU shares, the epochs of a schedule and its data.

    Not validated: the search builds thousands, and mapped instances always form a tree.
    """
    feeds = tuple(sorted(feed for part in mapped if part.first == 0 for feed in part.group))
    into = {feed: f"i{k + 1}" for k, part in enumerate(mapped) if part.first == 0 for feed in part.group}
    samples = dict(zip(feeds, schedule.split, strict=True))
    taken = dict(zip(feeds, schedule.amounts, strict=True))
    merged: dict[tuple[int, str], list[int]] = {}
    for feed in feeds:
        merged.setdefault((problem.feed_nodes[feed], into[feed]), []).append(feed)
    sources = tuple(
        Feed.model_construct(
            node=problem.names[node],
            samples=sum(samples[feed] for feed in together),
            epoch_samples=sum(taken[feed] for feed in together),
            into=name,
        )
        for (node, name), together in merged.items()
    )
    instances = tuple(
        Instance.model_construct(
            id=f"i{k + 1}",
            layers=(part.first + 1, part.last + 1),
            node=problem.names[part.node],
            cpu_share=share,
            into=None if part.into is None else f"i{part.into + 1}",
            codec="none",
        )
        for k, (part, share) in enumerate(zip(mapped, shares, strict=True))
    )
    return Phase.model_construct(sources=sources, instances=instances, epochs=schedule.epochs)
