"""The number of iterations in an epoch: the part of the data that a phase uses, in batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from palmette.cost.evaluate import Evaluator
from palmette.runtime.data.shards import (
    DataShard,
    data_shards,
    epoch_steps,
    is_stream,
    own_data,
    owners,
    source_nodes,
)
from palmette.spec.plan import Phase


@dataclass(frozen=True)
class EpochData:
    """The data of a run: the name of the data that all sources share, and the training samples by data name."""

    common: str
    sizes: Mapping[str, int]


def phase_shards(phase: Phase, evaluator: Evaluator, data: EpochData) -> list[DataShard]:
    """The shard of each source of a phase."""
    return data_shards(phase, evaluator.cluster, data.common)


def tree_steps(phase: Phase, evaluator: Evaluator, data: EpochData) -> list[int]:
    """Steps that each tree takes in an epoch over its own shard."""
    return epoch_steps(phase, phase_shards(phase, evaluator, data), data.sizes)


def common_steps(phase: Phase, evaluator: Evaluator, data: EpochData) -> int:
    """Batches needed for all samples that an epoch uses; if there is a stream among them, whole ones only."""
    if own_data(source_nodes(phase), evaluator.cluster):
        samples = _used_samples(phase, evaluator, data)
    else:
        owned = owners(phase.sources[0].node, evaluator.cluster)
        used = sum(evaluator.epoch_samples(phase).values())
        samples = data.sizes[data.common] * min(1.0, used / sum(owned.values()))
    streams = any(is_stream(node, evaluator.cluster) for node in source_nodes(phase))
    return max(1, int(samples / phase.batch + 1e-9) if streams else math.ceil(samples / phase.batch - 1e-9))


def worker_steps(phase: Phase, evaluator: Evaluator, data: EpochData) -> int:
    """Steps that the trees, each at its estimated rate, need for all samples that an epoch uses."""
    used = _used_samples(phase, evaluator, data)
    played = [(tree.batch, played.total_s) for tree, _, played in evaluator.price(phase).played]
    rates = [1 / time_s if time_s else 1.0 for _, time_s in played]
    batch = sum(many * rate for (many, _), rate in zip(played, rates, strict=True)) / sum(rates)
    return max(1, math.ceil(used / batch - 1e-9))


def _used_samples(phase: Phase, evaluator: Evaluator, data: EpochData) -> float:
    """Samples that an epoch uses of the sources' shards."""
    return sum(share.size(data.sizes[share.data]) * share.fraction for share in phase_shards(phase, evaluator, data))
