"""The memory that a plan needs on each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from palmette.cost.sizes import Run, Sizes
from palmette.errors import ArgumentFault, InputError, expected_name
from palmette.spec.plan import Phase

Optimizer = Literal["sgd", "momentum", "adam"]
STATE_COPIES: dict[Optimizer, int] = {"sgd": 0, "momentum": 1, "adam": 2}


def known_optimizer(name: str) -> Optimizer:
    """The optimizer of this name.

    Raises:
        InputError: there is none; names the nearest.
    """
    for known in STATE_COPIES:
        if name == known:
            return known
    raise InputError(ArgumentFault("optimizer", name, expected_name(name, "optimizer", list(STATE_COPIES))))


def peak_bytes(phase: Phase, sizes: Sizes, samples: Sequence[int], optimizer: Optimizer) -> dict[str, float]:
    """Bytes that each node holds at most: weights + gradients + optimizer state + activations of its samples.

    Under ``step``, replicas on one node share all but their activations; otherwise each has weights of its own, and the
    server holds the whole network too. A node where gradients only meet holds no more than those of the whole network.
    """
    runs: dict[str, list[Run]] = {}
    peaks: dict[str, float] = {}
    for instance, many in zip(phase.instances, samples, strict=True):
        runs.setdefault(instance.node, []).append(instance.layers)
        kept = sizes.activation_bytes(instance.layers, many)
        peaks[instance.node] = peaks.get(instance.node, 0.0) + kept
    if not phase.sync_kind.one_model:
        runs.setdefault(phase.meeting_node, []).append((1, phase.depth))
    elif phase.meet is not None and phase.meet in phase.nodes() and phase.meet not in runs:
        peaks[phase.meet] = 2 * sizes.weight_bytes([(1, phase.depth)])  # gradients that arrive, and their sums
    copies = 2 + STATE_COPIES[optimizer]
    for node, held in runs.items():
        own = _union(held) if phase.sync_kind.one_model else held
        peaks[node] = peaks.get(node, 0.0) + copies * sizes.weight_bytes(own)
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
