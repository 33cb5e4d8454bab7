"""The memory that a plan needs on each node."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.gradient_sets import gradient_sets
from palmette.cost.halves import halved_instances
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.order import delays, in_flight, microbatches
from palmette.cost.sizes import Run, Sizes
from palmette.spec.plan import Phase

_OUTER_COPIES = 2
"""What an outer optimizer keeps of each weight: as a window began with it, and its momentum."""
_CODED_COPIES = 2
"""What coded differences keep of each weight: as a window began with it, and what was left out."""


def peak_bytes(phase: Phase, sizes: Sizes, samples: Sequence[int], optimizer: OptimizerCost) -> dict[str, float]:
    """Bytes that each node holds at most: weights + gradients + optimizer state + activations of its samples.

    Frozen weights have neither gradients nor optimizer state. An instance that recomputes holds the inputs of its
    blocks and the activations of one block; instances of one node count one by one, since their calls may alternate,
    and of microbatches as many as are in flight (``order``). Where backward falls into halves, those whose second half
    waits keep their activations and as much again for gradients (``halves``).
    Under ``step``, replicas on one node share all but their activations, and hold the gradients that wait to be added
    (``gradient_sets``); otherwise each has weights of its own, and the server holds the whole network too, and an outer
    optimizer two more numbers for each weight. A node where gradients only meet holds no more than those of the whole
    network. Where exchanges leave something out of gradients, nodes keep as much as these take; of differences, also
    the weights that a window began with.
    """
    runs: dict[str, list[Run]] = {}
    peaks: dict[str, float] = {}
    together = _loses_together(phase, optimizer)
    halved, flying = (frozenset[int](), {}) if together else (halved_instances(phase, sizes), in_flight(phase))
    delayed = delays(phase) if halved else []
    for group in microbatches(phase):
        kept = []
        for k in group:
            instance = phase.instances[k]
            runs.setdefault(instance.node, []).append(instance.layers)
            bytes_of = sizes.recompute_bytes if instance.recompute else sizes.activation_bytes
            kept.append(bytes_of(instance.layers, samples[k]))
        kept.sort(reverse=True)
        waiting = max(delayed[k] for k in group) if group[0] in halved else 0
        most = sum(kept[: flying.get(group[0], len(group)) + waiting])
        most += sum(kept[: waiting + 1]) if group[0] in halved else 0.0
        peaks[instance.node] = peaks.get(instance.node, 0.0) + most
    if not phase.sync_kind.one_model:
        runs.setdefault(phase.meeting_node, []).append((1, phase.depth))
        if phase.outer is not None:
            outer = _OUTER_COPIES * sizes.trainable_bytes([(1, phase.depth)])
            peaks[phase.meeting_node] = peaks.get(phase.meeting_node, 0.0) + outer
        for node, run in _coded_runs(phase, sizes):
            peaks[node] = peaks.get(node, 0.0) + _CODED_COPIES * sizes.trainable_bytes([run])
    elif phase.meet is not None and phase.meet in phase.nodes() and phase.meet not in runs:
        arriving = 2 + _left_out(phase, sizes)  # gradients that arrive, and their sums
        peaks[phase.meet] = arriving * sizes.trainable_bytes([(1, phase.depth)])
    copies = 1 + optimizer.state_copies + _left_out(phase, sizes)
    waiting_bytes = _waiting_gradients(phase, sizes, optimizer, in_turns=bool(flying))
    for node, held in runs.items():
        own = _union(held) if phase.sync_kind.one_model else held
        trained = copies * sizes.trainable_bytes(own) + waiting_bytes.get(node, 0.0)
        peaks[node] = peaks.get(node, 0.0) + sizes.weight_bytes(own) + trained
    return peaks


def _waiting_gradients(phase: Phase, sizes: Sizes, optimizer: OptimizerCost, *, in_turns: bool) -> dict[str, float]:
    """Bytes of gradients that a node holds beside one of each weight, before they are added to that."""
    if not phase.sync_kind.one_model:
        return {}
    accumulates = optimizer.accumulate > 1 and len(phase.nodes()) > 1
    sets = gradient_sets(phase, in_turns=in_turns, accumulates=accumulates)
    return {
        node: sum((many - 1) * sizes.trainable_bytes([run]) for run, many in shared) for node, shared in sets.items()
    }


def _loses_together(phase: Phase, optimizer: OptimizerCost) -> bool:
    """Whether no root goes back before all have gone forward, since they find the divisor of their loss together."""
    return optimizer.divisor_varies and phase.sync_kind.one_model and phase.roots > 1


def _left_out(phase: Phase, sizes: Sizes) -> bool:
    """Whether nodes keep a part of the gradients for the next exchange."""
    return sizes.exchange_of(phase.exchange).kind.lossy and phase.sync_kind.one_model and phase.shares_layers()


def _coded_runs(phase: Phase, sizes: Sizes) -> list[tuple[str, Run]]:
    """The layers whose differences are coded, and the nodes that do so: instances that send them, and the server."""
    server = phase.meeting_node
    lossy = sizes.exchange_of(phase.exchange).kind.lossy and phase.sync_kind.averages_weights
    away = [(each.node, each.layers) for each in phase.instances if lossy and each.node != server]
    return [*away, (server, (1, phase.depth))] if away else []


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
