"""Which samples a source owns: the data that its node names, or a shard of the run's data. Pure, no torch.

Either all sources of a plan name data or none does. A node that names data owns all of it; of several nodes that name
the same data, each draws from its own row (``row_of``). Where none names any, the run's data is common: under ``step``
all sources draw from it together, and under ``epoch`` and ``async`` it is split among all nodes of the cluster that
have samples in its description and name no data, in proportion to these; they need not add up to the data's size. So a
node owns the same samples whichever other nodes a plan uses. Where a node is a source several times, its samples are
split once more (``cost/shards``). ``epoch_samples`` then limits an epoch to the same fraction of the real shard as of
the described one.
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
class DataShard:
    """The shard of a source: which part of a data set split in these proportions, and the fraction an epoch uses.

    ``number`` is the source's in the plan. Of a ``stream`` an epoch uses whole batches only.
    """

    number: int
    data: str
    proportions: tuple[float, ...]
    index: int
    fraction: float
    stream: bool = False

    def size(self, samples: int) -> int:
        """The number of samples in it."""
        return shard_sizes(samples, self.proportions)[self.index]

    def indices(self, samples: int, seed: int) -> Indices:
        """The samples in it, as indices into the data."""
        return shards(samples, self.proportions, seed)[self.index]

    def steps(self, samples: int, batch: int) -> int:
        """Batches that an epoch takes from it."""
        used = self.size(samples) * self.fraction
        return shard_steps(used // batch * batch if self.stream else used, batch)


def own_data(nodes: Iterable[str], cluster: Cluster) -> dict[str, str]:
    """The data named by those of these nodes that own a source, by node; empty if none names any.

    Raises:
        InputError: some of them name data, and others do not.
    """
    owned = {name: source.data for name in nodes if (source := cluster.nodes[name].source) is not None}
    named = {name: data for name, data in owned.items() if data is not None}
    others = [name for name in owned if name not in named]
    if named and others:
        expected = f"no data, unlike {listed(list(named))}; expected data for every source of the plan, or for none"
        raise InputError(Fault("source.data", listed(others), expected))
    return named


def row_of(node: str, cluster: Cluster) -> int:
    """The index of a node among those that name the same data, in the cluster's order."""
    named = {name: each.source.data for name, each in cluster.nodes.items() if each.source is not None}
    return [name for name, data in named.items() if data == named[node]].index(node)


def owners(node: str, cluster: Cluster) -> dict[str, int]:
    """The nodes among which the data that a node draws from is split, with their samples by description."""
    sources = {name: each.source for name, each in cluster.nodes.items() if each.source is not None}
    if sources[node].data is not None:
        return {node: sources[node].samples}
    return {name: source.samples for name, source in sources.items() if source.data is None}


def data_shards(phase: Phase, cluster: Cluster, data: str) -> list[DataShard]:
    """The shard of each source, in the plan's order; ``data`` is the run's, for sources that name none.

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
        stream = is_stream(feed.node, cluster)
        made.append(DataShard(k, named.get(feed.node, data), proportions, index, fraction, stream))
    return made


def is_stream(node: str, cluster: Cluster) -> bool:
    """Whether a node's samples are always new."""
    owned = cluster.nodes[node].source
    return owned is not None and owned.stream


def source_nodes(phase: Phase) -> list[str]:
    """The nodes that own sources, each once."""
    return list(dict.fromkeys(feed.node for feed in phase.sources))


def by_tree(phase: Phase, shares: Sequence[DataShard]) -> list[list[DataShard]]:
    """The shards of each tree's sources, in the order of the tree's sources."""
    left = list(zip(phase.sources, shares, strict=True))
    found = []
    for tree in trees(phase):
        ids = {instance.id for instance in tree.instances}
        found.append([share for feed, share in left if feed.into in ids])
    return found


def epoch_steps(phase: Phase, shares: Sequence[DataShard], samples: Mapping[str, int]) -> list[int]:
    """Steps that each tree takes in an epoch, local epochs included; ``samples`` are the data sizes by name."""
    steps = []
    for tree, own in zip(trees(phase), by_tree(phase, shares), strict=True):
        taken = [share.steps(samples[share.data], feed.samples) for share, feed in zip(own, tree.sources, strict=True)]
        steps.append(phase.local_epochs * max(taken))
    return steps
