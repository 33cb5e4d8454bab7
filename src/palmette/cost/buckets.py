"""Buckets: runs of replicated layers whose gradients are sent during backward, last layers first.

    backward  ├─ layers 7–9 ─┼─ layers 4–6 ─┼─ layers 1–3 ─┤
    push                     ├─ 7–9 ─┤      ├─ 4–6 ─┤      ├─ 1–3 ─┤
    pull                          …  ├─ 7–9 ─┤   …  ├─ 4–6 ─┤  …

A bucket has layers that the same instances hold, and at least an eighth of the bytes of these, but no less than 64 KiB:
each message pays a latency. So buckets follow from plan and profile alone. The backward of every instance that holds
one is divided where a bucket ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from palmette.cost.replicas import ReplicatedLayers
from palmette.cost.sizes import Run, Sizes
from palmette.spec.plan import Phase

MOST_BUCKETS = 8
LEAST_BYTES = 2.0**16


def bucket_runs(runs: Sequence[ReplicatedLayers], phase: Phase, sizes: Sizes) -> list[ReplicatedLayers]:
    """The runs divided into buckets, last layers first; then ties, which are known when backward ends."""
    ties = [run for run in runs if run.layers[0] > phase.depth]
    divided = [
        ReplicatedLayers(part, run.replicas, run.place)
        for run in runs
        if run not in ties
        for part in (_buckets(run.layers, phase, sizes) if _travels(run, phase) else [run.layers])
    ]
    return [*sorted(divided, key=lambda run: -run.layers[0]), *ties]


def _travels(run: ReplicatedLayers, phase: Phase) -> bool:
    return any(phase.instances[k].node != run.place for k in run.replicas)


def _buckets(run: Run, phase: Phase, sizes: Sizes) -> list[Run]:
    """A run as buckets, from its last layer to the first; what is left over at its beginning goes with the last."""
    least = max(LEAST_BYTES, sizes.exchanged_bytes([run], phase.exchange) / MOST_BUCKETS)
    found: list[Run] = []
    end = run[1]
    for first in range(run[1], run[0] - 1, -1):
        enough = sizes.exchanged_bytes([(first, end)], phase.exchange) >= least
        rest = sizes.exchanged_bytes([(run[0], first - 1)], phase.exchange)
        if first == run[0] or (enough and rest >= least):
            found.append((first, end))
            end = first - 1
    return found


def divided_instances(runs: Sequence[ReplicatedLayers], phase: Phase) -> dict[int, tuple[Run, ...]]:
    """The parts of each instance whose passes are divided where buckets begin."""
    found = {}
    for k, instance in enumerate(phase.instances):
        first, last = instance.layers
        starts = {run.layers[0] for run in runs if k in run.replicas and first < run.layers[0] <= last}
        begins = [first, *sorted(starts), last + 1]
        if starts:
            found[k] = tuple((begin, end - 1) for begin, end in pairwise(begins))
    return found
