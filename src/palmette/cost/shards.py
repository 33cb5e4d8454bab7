"""Which part of a node's samples each source of a phase draws from, where every source owns a shard.

Where a node is a source several times, its samples are cut among them: in proportion to what an epoch takes where all
of them say so, else to their batches.
"""

from __future__ import annotations

import math

from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase


def described_samples(phase: Phase, cluster: Cluster) -> list[float]:
    """The samples of each source by the cluster's description; several may come to fractions of one."""
    found = []
    for feed in phase.sources:
        same_node = [other for other in phase.sources if other.node == feed.node]
        owned = cluster.nodes[feed.node].source
        everything = owned.samples if owned is not None else feed.samples
        limits = [other.epoch_samples for other in same_node if other.epoch_samples is not None]
        if feed.epoch_samples is not None and len(limits) == len(same_node):
            found.append(everything * feed.epoch_samples / sum(limits))
        else:
            found.append(everything * feed.samples / sum(other.samples for other in same_node))
    return found


def used_fraction(epoch_samples: int | None, described: float) -> float:
    """The part of its shard that an epoch takes."""
    return 1.0 if epoch_samples is None else min(1.0, epoch_samples / described)


def shard_steps(used_samples: float, batch: int) -> int:
    """Batches that an epoch takes from so many samples, at least one."""
    return max(1, math.ceil(used_samples / batch - 1e-9))
