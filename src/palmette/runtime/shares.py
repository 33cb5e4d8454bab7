"""Which samples each source owns under ``epoch`` and ``async``, and how many of them an epoch takes. Pure, no torch.

The run's data is cut among the sources in proportion to the samples that their nodes own by the cluster's description,
which need not match the data's size. A node that names data of its own has all of that. Where a node is a source
several times, its samples are cut once more (``cost/shards``). ``epoch_samples`` then limits an epoch to the same
fraction of the real shard as of the described one.
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


def shares_of(phase: Phase, cluster: Cluster, data: str) -> list[Share]:
    """The share of each source, in the plan's order; ``data`` is the run's."""
    described = described_samples(phase, cluster)
    named = own_data(phase, cluster, data)
    pools = [feed.node if feed.node in named else None for feed in phase.sources]
    made = []
    for k, feed in enumerate(phase.sources):
        pool = [j for j, other in enumerate(pools) if other == pools[k]]
        proportions = tuple(described[j] for j in pool)
        fraction = used_fraction(feed.epoch_samples, described[k])
        made.append(Share(k, named.get(feed.node, data), proportions, pool.index(k), fraction))
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
