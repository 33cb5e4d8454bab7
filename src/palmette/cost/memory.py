"""The memory that a plan needs on each node."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.optimizer import OptimizerCost
from palmette.cost.sizes import Run, Sizes
from palmette.spec.plan import Phase


def peak_bytes(phase: Phase, sizes: Sizes, samples: Sequence[int], optimizer: OptimizerCost) -> dict[str, float]:
    """Bytes that each node holds at most: weights + gradients + optimizer state + activations of its samples.

    Frozen weights have neither gradients nor optimizer state. An instance that recomputes holds the inputs of its
    blocks and the activations of one block; instances of one node count one by one, since their calls may alternate.
    Under ``step``, replicas on one node share all but their activations; otherwise each has weights of its own, and the
    server holds the whole network too. A node where gradients only meet holds no more than those of the whole network.
    """
    runs: dict[str, list[Run]] = {}
    peaks: dict[str, float] = {}
    for instance, many in zip(phase.instances, samples, strict=True):
        runs.setdefault(instance.node, []).append(instance.layers)
        kept = (sizes.recompute_bytes if instance.recompute else sizes.activation_bytes)(instance.layers, many)
        peaks[instance.node] = peaks.get(instance.node, 0.0) + kept
    if not phase.sync_kind.one_model:
        runs.setdefault(phase.meeting_node, []).append((1, phase.depth))
    elif phase.meet is not None and phase.meet in phase.nodes() and phase.meet not in runs:
        peaks[phase.meet] = 2 * sizes.trainable_bytes([(1, phase.depth)])  # gradients that arrive, and their sums
    copies = 1 + optimizer.state_copies
    for node, held in runs.items():
        own = _union(held) if phase.sync_kind.one_model else held
        trained = copies * sizes.trainable_bytes(own)
        peaks[node] = peaks.get(node, 0.0) + sizes.weight_bytes(own) + trained
    return peaks


def _union(runs: list[Run]) -> list[Run]:
    """Runs of layers without what they have in common."""
    merged: list[Run] = []
    for run in sorted(runs):
        if merged and run[0] <= merged[-1][1]:
            start, end = merged.pop()
            merged.append((start, max(end, run[1])))
        else:
            merged.append(run)
    return merged
