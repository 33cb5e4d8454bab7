"""Batch norm over the whole batch where its layer has several replicas: the points at which they share statistics.

A layer with two batch norms is cut in three, taken as equally long; the profile does not tell their parts apart:

    position   2.0 ────── 2.33 ────── 2.67 ────── 3.0
    layer 3         norm 0       norm 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palmette.cost.replicas import ReplicatedLayers, replicated_layers
from palmette.cost.routes import Routes
from palmette.cost.sizes import Sizes
from palmette.cost.steps import Kind, NormPoint, Step, Steps, add
from palmette.spec.plan import Phase

FLOOR = 32
"""Samples of a part that normalises by itself below which its statistics are too noisy to be trusted."""


class SmallPart(NamedTuple):
    """An instance that normalises too few samples by itself."""

    instance: str
    samples: int


def small_parts(phase: Phase, sizes: Sizes, samples: Sequence[int], floor: int = FLOOR) -> list[SmallPart]:
    """Instances that hold a batch norm and normalise less than the whole batch, and fewer samples than a floor.

    ``samples`` are those of each instance.
    """
    if phase.batch_norm == "whole":
        return []
    least, norms = min(floor, phase.batch), sizes.batch_norm_layers
    return [
        SmallPart(instance.id, many)
        for instance, many in zip(phase.instances, samples, strict=True)
        if many < least and any(instance.layers[0] <= layer <= instance.layers[1] for layer in norms)
    ]


class SharedNorm(NamedTuple):
    """A batch norm whose parts share their statistics, where in the network it is, and its replicas."""

    point: NormPoint
    position: float
    run: ReplicatedLayers


def shared_norms(phase: Phase, sizes: Sizes, routes: Routes) -> list[SharedNorm]:
    """The batch norms of a phase that share statistics among replicas, from the first layer on."""
    if phase.batch_norm == "parts" or not phase.sync_kind.one_model:
        return []
    return [
        SharedNorm(NormPoint(layer, number, channels), layer - 1 + (number + 1) / (len(norms) + 1), run)
        for run in replicated_layers(phase, routes)
        for layer in range(run.layers[0], run.layers[1] + 1)
        for norms in [sizes.batch_norm_channels[layer]]
        for number, channels in enumerate(norms)
    ]


def add_totals(steps: Steps, phase: Phase, shared: SharedNorm, computed: Mapping[int, int]) -> dict[int, int]:
    """Add what brings the statistics of all replicas together, one message per node there and back.

    ``computed`` are the calls that end at the batch norm, by instance; returns what each goes on after.
    """
    point, place = shared.point, shared.run.place
    by_node: dict[str, list[int]] = {}
    for k in shared.run.replicas:
        by_node.setdefault(phase.instances[k].node, []).append(k)
    parts: list[int] = []
    for node, own in by_node.items():
        after = [computed[k] for k in own]
        if node == place:
            parts += after
        else:
            parts.append(add(steps, Step(Kind.STATISTICS, own[0], node, after, place, point=point)))
    combined = add(steps, Step(Kind.COMBINE, shared.run.replicas[0], place, parts, point=point))
    ready: dict[int, int] = {}
    for node, own in by_node.items():
        last = combined
        if node != place:
            last = add(steps, Step(Kind.TOTALS, own[0], place, [combined], node, point=point))
        ready |= dict.fromkeys(own, last)
    return ready
