"""Which samples each source owns under ``epoch`` and ``async``, and how many of them an epoch takes. Pure, no torch.

The run's data is cut among all nodes of the cluster that own samples by its description, in proportion to them; they
need not add up to the data's size. So a node owns the same samples whichever others a plan makes use of. A node that
names data of its own has all of that. Where a node is a source several times, its samples are cut once more
(``cost/shards``). ``epoch_samples`` then limits an epoch to the same fraction of the real shard as of the described
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palmette.cost.operations import trees
from palmette.cost.shards import described_samples, shard_steps, used_fraction
from palmette.runtime.batches import Indices, shard_sizes, shards
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


def own_data(phase: Phase, cluster: Cluster, data: str) -> dict[str, str]:
    """The data of those sources' nodes that name other data than the run's, by node."""
    found = {}
    for feed in phase.sources:
        owned = cluster.nodes[feed.node].source
        if owned is not None and owned.data is not None and owned.data != data:
            found[feed.node] = owned.data
    return found


def owners(node: str, cluster: Cluster, data: str) -> dict[str, int]:
    """The nodes among which the data that a node draws from is cut, with the samples that they own by description.

    ``data`` is the run's.
    """
    sources = {name: each.source for name, each in cluster.nodes.items() if each.source is not None}
    if sources[node].data not in (None, data):
        return {node: sources[node].samples}
    return {name: source.samples for name, source in sources.items() if source.data in (None, data)}


def shares_of(phase: Phase, cluster: Cluster, data: str) -> list[Share]:
    """The share of each source, in the plan's order; ``data`` is the run's."""
    described, named = described_samples(phase, cluster), own_data(phase, cluster, data)
    made = []
    for k, feed in enumerate(phase.sources):
        parts: list[tuple[int | None, float]] = []
        for owner, samples in owners(feed.node, cluster, data).items():
            fed = [(j, described[j]) for j, other in enumerate(phase.sources) if other.node == owner]
            parts += fed or [(None, samples)]
        index = [number for number, _ in parts].index(k)
        fraction = used_fraction(feed.epoch_samples, described[k])
        proportions = tuple(part for _, part in parts)
        made.append(Share(k, named.get(feed.node, data), proportions, index, fraction))
    return made


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
