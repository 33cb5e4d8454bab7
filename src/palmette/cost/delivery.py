"""How samples reach the nodes that compute on them: how many have to be sent in an epoch, and how many are kept.

A source whose instance runs on its own node sends nothing. With ``delivery: each`` every sample is sent for every
iteration that uses it. With ``once`` a node keeps what it was sent: in the first pass over the data every sample is
new to it, later only those that earlier passes gave to branches on other nodes.

Which branch gets which samples of a batch: where samples are kept, the batch is put into an order of the whole data set
that never changes, and the branches take consecutive slices of that. So a sample comes back to the same branch unless
its place in the batch falls beyond the slice's end: its place is the number of samples in the batch that come before it
in the fixed order, which is binomially distributed. With one branch it is always the same, and so it is with several
on one node, which all find what it keeps of the same owner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from palmette.cost.shards import described_samples
from palmette.cost.sizes import Sizes
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Chances = NDArray[np.float64]

Slices = tuple[tuple[int, int], ...]
"""Places in a batch, each time from the first to the one behind the last."""
MOST_LABEL_BYTES = 8
"""A label that is a class takes no more."""
KEPT_RECORD_BYTES = 16 + MOST_LABEL_BYTES
"""What a kept sample takes beside its own bytes: number, length, checksum, and at most its class."""
WAITING_RECORD_BYTES = 41 + MOST_LABEL_BYTES
"""What a sample that waits in memory takes beside its own bytes: an object, its place in a list, its class."""
_PLACES = 400
"""Places in the fixed order at which the distribution over branches is evaluated."""
_MANY_PASSES = 100
"""Passes over the data after which as good as all samples that ever come to a branch have come to it."""
_DEVIATIONS = 4
"""Standard deviations by which chance may give a branch more samples than the mean."""
_LATER_PASSES = 10
"""A later epoch is the mean of those from the second pass over the data to this one."""


class Sent(NamedTuple):
    """What of an iteration has to be sent: by source the fraction of its samples that the node there does not have.

    Of outputs that are kept (``kept_outputs``), ``known`` is the fraction of each instance's samples whose last output
    both ends have, by its id.
    """

    samples: Sequence[float]
    known: Mapping[str, float] = MappingProxyType({})

    def of(self, sources: Sequence[int]) -> Sent:
        """The same of a part of the sources."""
        return Sent([self.samples[k] for k in sources], self.known)


def sending_sources(phase: Phase) -> list[int]:
    """The sources whose samples travel: those whose instance runs on another node."""
    nodes = {instance.id: instance.node for instance in phase.instances}
    return [k for k, source in enumerate(phase.sources) if nodes[source.into] != source.node]


def keeps_samples(phase: Phase) -> bool:
    """Whether nodes of a phase keep samples that they are sent."""
    return any(phase.sources[k].delivery == "once" for k in sending_sources(phase))


def kept_pairs(phase: Phase) -> set[tuple[str, str]]:
    """The nodes whose samples are kept, each with the node that keeps them."""
    nodes = {instance.id: instance.node for instance in phase.instances}
    sources = [phase.sources[k] for k in sending_sources(phase)]
    return {(source.node, nodes[source.into]) for source in sources if source.delivery == "once"}


def upload_pairs(phase: Phase) -> set[tuple[str, str]]:
    """The nodes whose samples are uploaded for a later phase, each with the node that keeps them."""
    return {(source.node, to) for source in phase.sources for to in phase.upload if to != source.node}


def upload_bytes(phase: Phase, sizes: Sizes, owner: str) -> float:
    """Bytes of an owner's samples that an iteration uploads: all of them in the phase's epochs, evenly."""
    owners = {source.node for source in phase.sources}
    epoch = math.ceil(sum(sizes.samples.get(name, 0) for name in owners) / phase.batch)
    iterations = max(1, epoch * (phase.epochs or 1))
    return sizes.samples.get(owner, 0) * sizes.sample_bytes(owner, phase.input_as) / iterations


def first_fractions(phase: Phase) -> list[float]:
    """For each source, the fraction of its samples that are sent in the first epoch: all that travel."""
    sending = sending_sources(phase)
    return [1.0 if k in sending else 0.0 for k in range(len(phase.sources))]


def later_fractions(phase: Phase, cluster: Cluster) -> list[float]:
    """For each source, the fraction of its samples that are sent in a later epoch: those that no node has kept."""
    if not keeps_samples(phase):
        return first_fractions(phase)
    sending, dealt = sending_sources(phase), _dealt(phase, cluster) if phase.sync_kind.common_batch else {}
    nodes = {instance.id: instance.node for instance in phase.instances}
    fractions = []
    for k, source in enumerate(phase.sources):
        if k not in sending:
            fractions.append(0.0)
        elif source.delivery == "each" or never_ends(source, cluster):
            fractions.append(1.0)
        else:  # a shard of its own always comes back to it
            pair = dealt.get((source.node, nodes[source.into]))
            fractions.append(0.0 if pair is None else new_in_later_passes(*pair))
    return fractions


def kept_bytes(phase: Phase, cluster: Cluster, sizes: Sizes) -> dict[str, float]:
    """Bytes of other nodes' samples that each node keeps in the long run, at most."""
    kept: dict[str, float] = {}
    uploaded = {pair: float(sizes.samples.get(pair[0], 0)) for pair in upload_pairs(phase)}
    for (source, place), samples in (_kept_samples(phase, cluster) | uploaded).items():
        record_bytes = sizes.sample_bytes(source, phase.input_as) + KEPT_RECORD_BYTES
        kept[place] = kept.get(place, 0.0) + samples * record_bytes
    return kept


def waiting_bytes(phase: Phase, sizes: Sizes) -> dict[str, float]:
    """Bytes of the next iterations' samples that each node holds while it computes, where they travel ahead."""
    waiting: dict[str, float] = {}
    nodes = {instance.id: instance.node for instance in phase.instances}
    for source in [phase.sources[k] for k in sending_sources(phase)] if phase.ahead else ():
        record_bytes = sizes.sample_bytes(source.node, phase.input_as) + WAITING_RECORD_BYTES
        place, many = nodes[source.into], phase.ahead_iterations * source.samples
        waiting[place] = waiting.get(place, 0.0) + many * record_bytes
    return waiting


def _kept_samples(phase: Phase, cluster: Cluster) -> dict[tuple[str, str], float]:
    """How many samples are kept of which node on which other one."""
    if phase.sync_kind.common_batch:
        dealt, owned = _dealt(phase, cluster), drawn_samples(phase, cluster)
        return {pair: most_kept(*dealt[pair], owned[pair[0]]) for pair in kept_pairs(phase)}
    kept: dict[tuple[str, str], float] = {}
    nodes = {instance.id: instance.node for instance in phase.instances}
    shards = described_samples(phase, cluster)
    for k in sending_sources(phase):
        source = phase.sources[k]
        if source.delivery == "once":
            pair = source.node, nodes[source.into]
            kept[pair] = kept.get(pair, 0.0) + shards[k]
    return kept


def drawn_samples(phase: Phase, cluster: Cluster) -> dict[str, float]:
    """The samples that the batches of each node's sources are drawn from, by the cluster's description."""
    owned = {source.node: cluster.nodes[source.node].source for source in phase.sources}
    samples = {name: 0 if source is None else source.samples for name, source in owned.items()}
    return {name: samples[name] if _has_own_data(name, cluster) else sum(samples.values()) for name in samples}


def never_ends(source: Feed, cluster: Cluster) -> bool:
    """Whether epochs are so short that the first pass over the data goes on."""
    owned = cluster.nodes[source.node].source
    return (
        source.epoch_samples is not None and owned is not None and _LATER_PASSES * source.epoch_samples <= owned.samples
    )


def _has_own_data(node: str, cluster: Cluster) -> bool:
    """Whether batches take samples of a node from its own data, not from what all others take theirs from."""
    owned = cluster.nodes[node].source
    return owned is not None and owned.data is not None


class Dealt(NamedTuple):
    """The slices of a batch that one node's samples take on another, which keeps them, and the size of the batch."""

    slices: Slices
    batch: int


def _dealt(phase: Phase, cluster: Cluster) -> dict[tuple[str, str], Dealt]:
    """How batches are dealt, for each node whose samples are kept, and the node that keeps them."""
    nodes = {instance.id: instance.node for instance in phase.instances}
    taken: dict[tuple[str, str], list[int]] = {}
    for k, source in enumerate(phase.sources):
        if source.delivery == "once":
            taken.setdefault((source.node, nodes[source.into]), []).append(k)
    return {pair: dealt_to(phase, cluster, sources) for pair, sources in taken.items()}


def dealt_to(phase: Phase, cluster: Cluster, sources: Sequence[int]) -> Dealt:
    """How batches are dealt to some sources of one node."""
    slices: list[tuple[int, int]] = []
    ends: dict[str | None, int] = {}
    for k, source in enumerate(phase.sources):
        data = _data_of(source.node, cluster)
        begin = ends.get(data, 0)
        ends[data] = begin + source.samples
        if k in sources:
            _append(slices, begin, ends[data])
    return Dealt(tuple(slices), ends[_data_of(phase.sources[sources[0]].node, cluster)])


def _data_of(node: str, cluster: Cluster) -> str | None:
    """Whose data a node's samples are drawn from: its own, or, None, what all others are drawn from, too."""
    return node if _has_own_data(node, cluster) else None


def _append(slices: list[tuple[int, int]], begin: int, end: int) -> None:
    """Add a slice behind others; one that follows on the last makes it longer."""
    if slices and slices[-1][1] == begin:
        begin = slices.pop()[0]
    slices.append((begin, end))


@lru_cache(maxsize=4096)
def new_in_later_passes(slices: Slices, batch: int, passes: int = _LATER_PASSES) -> float:
    """The fraction of slices' samples that their node never had before, in the mean of the passes from the second."""
    if slices == ((0, batch),):
        return 0.0
    chances = _chances(slices, batch)
    ever = (1 - chances) * (1 - (1 - chances) ** (passes - 1))
    return float(ever.mean() / (passes - 1) / chances.mean())


@lru_cache(maxsize=4096)
def most_kept(slices: Slices, batch: int, samples: float) -> float:
    """How many of all samples come to slices in the long run, as good as never more: the mean and some deviations."""
    if slices == ((0, batch),):
        return samples
    ever = 1 - (1 - _chances(slices, batch)) ** _MANY_PASSES
    deviation = math.sqrt(samples * float((ever * (1 - ever)).mean()))
    return min(samples, samples * float(ever.mean()) + _DEVIATIONS * deviation)


def _chances(slices: Slices, batch: int) -> Chances:
    """The probability that a sample comes to one of the slices, for places spread evenly over the fixed order."""
    import numpy as np

    total = sum((_before(end, batch) - _before(begin, batch) for begin, end in slices), start=np.zeros(_PLACES))
    return np.clip(total, 0.0, 1.0)


@lru_cache(maxsize=4096)
def _before(end: int, batch: int) -> Chances:
    """The probability that fewer than ``end`` samples of the batch come before a sample in the fixed order."""
    import numpy as np
    from scipy.special import bdtr

    if end in (0, batch):
        return np.full(_PLACES, float(end > 0))
    return np.array(bdtr(end - 1, batch - 1, (np.arange(_PLACES) + 0.5) / _PLACES))
