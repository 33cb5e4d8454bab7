"""Buckets: runs of replicated layers whose gradients are sent during backward, last layers first.

    backward  ├─ layers 7–9 ─┼─ layers 4–6 ─┼─ layers 1–3 ─┤
    push                     ├ 7–9 ┼ 7–9 ┼ 4–6 ─┤          ├ 1–3 ─┤
    pull                           ├ 7–9 ┼ 7–9 ┼ 4–6 ─┤           ├ 1–3 ─┤

A bucket has layers that the same instances hold, and at least an eighth of the bytes of these, but no less than 64 KiB:
each message pays a latency. One that has more, since a layer is larger than that, leaves in pieces, so that its first
numbers return while its last ones leave; not where it is coded, since a codec needs a weight as a whole. So buckets and
pieces follow from plan and profile alone. The backward of every instance that holds a bucket is divided where one ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from palmette.cost.replicas import ReplicatedLayers
from palmette.cost.sizes import Run, Sizes
from palmette.cost.steps import Piece
from palmette.spec.plan import Phase

MOST_BUCKETS = 8
LEAST_BYTES = 2.0**16


def bucket_runs(runs: Sequence[ReplicatedLayers], phase: Phase, sizes: Sizes) -> list[ReplicatedLayers]:
    """The runs divided into buckets and pieces, last layers first; then ties, which are known when backward ends."""
    ties = [run for run in runs if run.layers[0] > phase.depth]
    divided = [
        replace(run, layers=part)
        for run in runs
        if run not in ties
        for part in (_buckets(run.layers, phase, sizes) if _travels(run, phase) else [run.layers])
    ]
    buckets = [*sorted(divided, key=lambda run: -run.layers[0]), *ties]
    least = _least_bytes([run.layers for run in buckets if _travels(run, phase)], phase, sizes)
    return [piece for bucket in buckets for piece in _pieces(bucket, least, phase, sizes)]


def _pieces(bucket: ReplicatedLayers, least: float, phase: Phase, sizes: Sizes) -> Iterator[ReplicatedLayers]:
    """A bucket in pieces of at most the least bytes; as it is, where it is small, coded, or does not travel."""
    many = math.ceil(sizes.exchanged_bytes([bucket.layers], phase.exchange) / least)
    if many == 1 or sizes.exchange_of(phase.exchange).kind.lossy or not _travels(bucket, phase):
        yield bucket
        return
    for number in range(many):
        yield replace(bucket, piece=Piece(number, many))


def _least_bytes(runs: Sequence[Run], phase: Phase, sizes: Sizes) -> float:
    """Bytes of a bucket at least, among those of some runs."""
    return max(LEAST_BYTES, sizes.exchanged_bytes(runs, phase.exchange) / MOST_BUCKETS)


def _travels(run: ReplicatedLayers, phase: Phase) -> bool:
    return any(phase.instances[k].node != run.place for k in run.replicas)


def _buckets(run: Run, phase: Phase, sizes: Sizes) -> list[Run]:
    """A run as buckets, from its last layer to the first; what is left over at its beginning goes with the last."""
    least = _least_bytes([run], phase, sizes)
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
