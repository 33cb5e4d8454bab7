"""Outputs that both ends of a channel keep, so that later ones travel as deltas: how many, and how large they are.

A channel leads from one node to another, with the outputs of one layer, within a tree; several instances, as those of
microbatches, may share it. What is kept of a sample belongs to the channel. In the first pass over the data every
sample is new to it, later only those that earlier passes gave to other channels: batches are dealt as where samples are
kept (``delivery``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palmette.cost.delivery import Dealt, dealt_to, drawn_samples, most_kept, never_ends, new_in_later_passes
from palmette.cost.labels import roots
from palmette.cost.operations import sources_by_instance
from palmette.cost.shards import described_samples
from palmette.cost.sizes import Sizes
from palmette.spec.cluster import Cluster
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.plan import Phase

KEPT_OUTPUT_BYTES = 300
"""What a kept output takes beside its own numbers: its name, and where it is, in a dictionary that grows."""

_KEEPING = frozenset(codec for codec, kind in CODEC_KINDS.items() if kind.keeps)


class OutputChannel(NamedTuple):
    """The numbers of the instances whose outputs of a layer go from one node to another, and of all their sources."""

    sender: str
    receiver: str
    layer: int
    instances: tuple[int, ...]
    sources: tuple[int, ...]


def keeps_outputs(phase: Phase) -> bool:
    """Whether nodes of a phase keep outputs."""
    for each in phase.instances:  # asked for every price
        if each.codec in _KEEPING:
            return bool(keeping_channels(phase))
    return False


def keeping_channels(phase: Phase) -> list[OutputChannel]:
    """The channels whose ends keep outputs."""
    places = {each.id: each.node for each in phase.instances}
    reach, found = sources_by_instance(phase), dict[tuple[str, str, str, int], list[int]]()
    for k, each in enumerate(phase.instances):
        if each.codec in _KEEPING and each.into is not None and places[each.into] != each.node:
            root = roots(phase)[reach[k][0]].id
            found.setdefault((root, each.node, places[each.into], each.layers[1]), []).append(k)
    return [
        OutputChannel(sender, to, layer, tuple(group), tuple(sorted(s for k in group for s in reach[k])))
        for (_, sender, to, layer), group in found.items()
    ]


def known_fractions(phase: Phase, cluster: Cluster) -> dict[str, float]:
    """By the id of each instance whose outputs are kept: the fraction of its samples that a later epoch finds kept."""
    reach, found = sources_by_instance(phase), dict[str, float]()
    for channel in keeping_channels(phase):
        known = {s: 1 - _new(phase, cluster, channel, s) for s in channel.sources}
        for k in channel.instances:
            samples = [phase.sources[s].samples for s in reach[k]]
            kept = sum(known[s] * many for s, many in zip(reach[k], samples, strict=True))
            found[phase.instances[k].id] = kept / sum(samples)
    return found


def _new(phase: Phase, cluster: Cluster, channel: OutputChannel, source: int) -> float:
    """The fraction of a source's samples that a channel has not had before, in a later epoch."""
    if never_ends(phase.sources[source], cluster):
        return 1.0
    if not phase.sync_kind.common_batch:  # a shard of its own always comes back to it
        return 0.0
    return new_in_later_passes(*_dealt(phase, cluster, channel, phase.sources[source].node))


def _dealt(phase: Phase, cluster: Cluster, channel: OutputChannel, owner: str) -> Dealt:
    """How batches are dealt to a channel of an owner's samples."""
    return dealt_to(phase, cluster, [s for s in channel.sources if phase.sources[s].node == owner])


def kept_output_bytes(phase: Phase, cluster: Cluster, sizes: Sizes) -> dict[str, float]:
    """Bytes of the outputs that each node keeps in the long run, at most: both ends of a channel the same."""
    kept: dict[str, float] = {}
    for channel in keeping_channels(phase):
        each_bytes = sizes.coded_bytes(channel.layer) + KEPT_OUTPUT_BYTES
        size = each_bytes * _kept_samples(phase, cluster, channel)
        for node in (channel.sender, channel.receiver):
            kept[node] = kept.get(node, 0.0) + size
    return kept


def _kept_samples(phase: Phase, cluster: Cluster, channel: OutputChannel) -> float:
    """How many samples come to a channel in the long run."""
    if not phase.sync_kind.common_batch:
        shards: Sequence[float] = described_samples(phase, cluster)
        return sum(shards[s] for s in channel.sources)
    owned = drawn_samples(phase, cluster)
    owners = dict.fromkeys(phase.sources[s].node for s in channel.sources)
    return sum(most_kept(*_dealt(phase, cluster, channel, owner), owned[owner]) for owner in owners)
