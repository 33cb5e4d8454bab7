"""Whose samples a source gives: those of the data that its node names, or its share of the run's. Pure, no torch.

A plan's sources all name data or none does. A node that names data has all of what that name gives; one of several
that name the same draws from a row of its own (``row_of``). Where none names any, the run's data is common: under
``step`` all draw from it together, and under ``epoch`` and ``async`` it is cut among all nodes of the cluster that own
samples by its description and name no data, in proportion to them; they need not add up to the data's size. So a node
owns the same samples whichever others a plan makes use of. Where a node is a source several times, its samples are cut
once more (``cost/shards``). ``epoch_samples`` then limits an epoch to the same fraction of the real shard as of the
described one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from palmette.cost.operations import trees
from palmette.cost.shards import described_samples, shard_steps, used_fraction
from palmette.errors import Fault, InputError, listed
from palmette.runtime.data.batches import Indices, shard_sizes, shards
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase


@dataclass(frozen=True)
class Share:
    """A source's part of a data set: one of several in these proportions, and how much of it an epoch takes.

    ``number`` is the source's in the plan.
    """

    number: int
    data: str
    proportions: tuple[float, ...]
    index: int
    fraction: float

    def size(self, samples: int) -> int:
        """How many of the data's samples it owns."""
        return shard_sizes(samples, self.proportions)[self.index]

    def indices(self, samples: int, seed: int) -> Indices:
        """Which of the data's samples it owns."""
        return shards(samples, self.proportions, seed)[self.index]

    def steps(self, samples: int, batch: int) -> int:
        """Batches that an epoch takes from it."""
        return shard_steps(self.size(samples) * self.fraction, batch)


def own_data(nodes: Iterable[str], cluster: Cluster) -> dict[str, str]:
    """The data that those of these nodes name that own a source, by node; nothing where none names any.

    Raises:
        InputError: some of them name data, and others do not.
    """
    owned = {name: source.data for name in nodes if (source := cluster.nodes[name].source) is not None}
    named = {name: data for name, data in owned.items() if data is not None}
    others = [name for name in owned if name not in named]
    if named and others:
        expected = (
            f"none is named, unlike for {listed(list(named))}; expected data of every source of the plan, or of none"
        )
        raise InputError(Fault("source.data", listed(others), expected))
    return named


def row_of(node: str, cluster: Cluster) -> int:
    """Which of the nodes that name the same data this is, in the cluster's order."""
    named = {name: each.source.data for name, each in cluster.nodes.items() if each.source is not None}
    return [name for name, data in named.items() if data == named[node]].index(node)


def owners(node: str, cluster: Cluster) -> dict[str, int]:
    """The nodes among which the data that a node draws from is cut, with the samples that they own by description."""
    sources = {name: each.source for name, each in cluster.nodes.items() if each.source is not None}
    if sources[node].data is not None:
        return {node: sources[node].samples}
    return {name: source.samples for name, source in sources.items() if source.data is None}


def shares_of(phase: Phase, cluster: Cluster, data: str) -> list[Share]:
    """The share of each source, in the plan's order; ``data`` is the run's, where no source names its own.

    Raises:
        InputError: some sources name data, and others do not.
    """
    described, named = described_samples(phase, cluster), own_data(source_nodes(phase), cluster)
    made = []
    for k, feed in enumerate(phase.sources):
        parts: list[tuple[int | None, float]] = []
        for owner, samples in owners(feed.node, cluster).items():
            fed = [(j, described[j]) for j, other in enumerate(phase.sources) if other.node == owner]
            parts += fed or [(None, samples)]
        index = [number for number, _ in parts].index(k)
        fraction = used_fraction(feed.epoch_samples, described[k])
        proportions = tuple(part for _, part in parts)
        made.append(Share(k, named.get(feed.node, data), proportions, index, fraction))
    return made


def source_nodes(phase: Phase) -> list[str]:
    """The nodes that give samples, each once."""
    return list(dict.fromkeys(feed.node for feed in phase.sources))


def by_tree(phase: Phase, shares: Sequence[Share]) -> list[list[Share]]:
    """The shares of each tree's sources, in the order of the tree's sources."""
    left = list(zip(phase.sources, shares, strict=True))
    found = []
    for tree in trees(phase):
        ids = {instance.id for instance in tree.instances}
        found.append([share for feed, share in left if feed.into in ids])
    return found


def epoch_steps(phase: Phase, shares: Sequence[Share], samples: Mapping[str, int]) -> list[int]:
    """Steps that each tree takes in an epoch, local epochs included; ``samples`` are the sizes of the data by name."""
    steps = []
    for tree, own in zip(trees(phase), by_tree(phase, shares), strict=True):
        taken = [share.steps(samples[share.data], feed.samples) for share, feed in zip(own, tree.sources, strict=True)]
        steps.append(phase.local_epochs * max(taken))
    return steps
