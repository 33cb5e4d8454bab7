"""How long streams last: their samples are always new, so that each is used once. Pure, no torch.

An epoch takes whole batches of a stream; what is left over at its end is not used. Under ``async`` a tree takes steps
as long as its streams last, and the others take the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from palmette.cost.evaluate import Evaluator
from palmette.errors import listed
from palmette.runtime.data.epoch_length import EpochData, phase_shards, tree_steps
from palmette.runtime.data.shards import by_tree, is_stream, own_data, source_nodes
from palmette.spec.plan import Phase


class StreamLength(NamedTuple):
    """How many samples a node's stream has for a phase, and for how many of the phase's iterations they last.

    Under ``async``, those of all nodes together.
    """

    node: str
    samples: int
    iterations: int


def shortest_stream(phase: Phase, evaluator: Evaluator, data: EpochData, first: int) -> StreamLength | None:
    """The stream of a phase that ends first; iterations before number ``first`` have taken their part."""
    if phase.sync_kind.has_server:
        return _served(phase, evaluator, data, first)
    lengths = (_shared if phase.sync_kind.common_batch else _sharded)(phase, evaluator, data, first)
    streams = [each for each in lengths if is_stream(each.node, evaluator.cluster)]
    return min(streams, key=lambda each: each.iterations, default=None)


def tree_limits(phase: Phase, evaluator: Evaluator, data: EpochData, first: int) -> list[int | None]:
    """How many steps each tree can take before one of its streams ends; None where it has none."""
    limits = []
    for shares in by_tree(phase, phase_shards(phase, evaluator, data)):
        left = [
            max(0, share.size(data.sizes[share.data]) // phase.sources[share.number].samples - first)
            for share in shares
            if share.stream
        ]
        limits.append(min(left, default=None))
    return limits


def _served(phase: Phase, evaluator: Evaluator, data: EpochData, first: int) -> StreamLength | None:
    """Where trees take steps as they can: all streams together; None if a tree has none, and so can always go on."""
    steps = [limit for limit in tree_limits(phase, evaluator, data, first) if limit is not None]
    shares = [share for share in phase_shards(phase, evaluator, data) if share.stream]
    if len(steps) < len(by_tree(phase, phase_shards(phase, evaluator, data))):
        return None
    nodes = list(dict.fromkeys(phase.sources[share.number].node for share in shares))
    return StreamLength(listed(nodes), sum(share.size(data.sizes[share.data]) for share in shares), sum(steps))


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
