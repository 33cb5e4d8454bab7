"""How long streams last: their samples are always new, so that each is used once. Pure, no torch.

An epoch takes whole batches of a stream; what is left over at its end is not used. Under ``async`` nobody knows which
source takes the next step, so each has to have enough for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from palmette.cost.evaluate import Evaluator
from palmette.runtime.data.epoch_length import EpochData, phase_shards, tree_steps
from palmette.runtime.data.shards import by_tree, is_stream, own_data, source_nodes
from palmette.spec.plan import Phase


class StreamLength(NamedTuple):
    """How many samples a node's stream has for a phase, and for how many of the phase's iterations they last."""

    node: str
    samples: int
    iterations: int


def shortest_stream(phase: Phase, evaluator: Evaluator, data: EpochData, first: int) -> StreamLength | None:
    """The stream of a phase that ends first; iterations before number ``first`` have taken their part."""
    lengths = (_shared if phase.sync_kind.one_model else _sharded)(phase, evaluator, data, first)
    streams = [each for each in lengths if is_stream(each.node, evaluator.cluster)]
    return min(streams, key=lambda each: each.iterations, default=None)


def _shared(phase: Phase, evaluator: Evaluator, data: EpochData, first: int) -> Iterator[StreamLength]:
    """Where sources take slices of batches of all data, or of their node's."""
    named = own_data(source_nodes(phase), evaluator.cluster)
    for node in source_nodes(phase):
        samples = data.sizes[named.get(node, data.common)]
        batch = sum(feed.samples for feed in phase.sources if not named or feed.node == node)
        yield StreamLength(node, samples, max(0, samples // batch - first))


def _sharded(phase: Phase, evaluator: Evaluator, data: EpochData, first: int) -> Iterator[StreamLength]:
    """Where each source takes batches of its own shard."""
    steps, known = tree_steps(phase, evaluator, data), by_tree(phase, phase_shards(phase, evaluator, data))
    for many, shares in zip(steps, known, strict=True):
        for share in shares:
            feed, samples = phase.sources[share.number], share.size(data.sizes[share.data])
            left = max(0, samples // feed.samples - first)
            epochs, rest = divmod(left, many) if phase.sync_kind.averages_weights else (0, left)
            yield StreamLength(feed.node, samples, epochs * max(steps) + rest)
