"""Layers that several instances hold, where their replicas meet, and how they agree at the end of an iteration.

Under ``step`` the gradients of a layer are added up on each node that holds it, in the plan's order, and travel in one
message a node, together with those of all other layers that meet at the same place:

    phone   backward I ─┐
            backward J ─┴▶ push ──▶ average ──▶ pull ──▶ update       (the average is on the meeting node)

Every node updates a layer once, by the first of its instances that holds it.

A weight that several layers use (a tie) is treated as a layer of its own, which all instances hold that hold one of
those: its number follows the last layer's, ties in the profile's order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palmette.cost.routes import Routes
from palmette.cost.sizes import Run, Sizes, runs_of
from palmette.cost.steps import Kind, Step, Steps, add
from palmette.spec.plan import Phase
from palmette.spec.tree import Instance


@dataclass(frozen=True, slots=True)
class ReplicatedLayers:
    """A run of layers that several instances hold, by number, and the node where they meet."""

    layers: Run
    replicas: tuple[int, ...]
    place: str


def replicated_layers(phase: Phase, routes: Routes) -> list[ReplicatedLayers]:
    """Runs of layers held by the same several instances, and where each run's gradients meet."""
    instances = phase.instances
    runs = []
    for first, last in shared_runs(instances):
        replicas = tuple(k for k, i in enumerate(instances) if i.layers[0] <= first and last <= i.layers[1])
        if len(replicas) > 1:
            runs.append(ReplicatedLayers((first, last), replicas, _meeting_place(phase, replicas, routes)))
    return runs


def shared_runs(instances: Sequence[Instance]) -> list[Run]:
    """The layers as runs within which no instance begins or ends."""
    starts = sorted({i.layers[0] for i in instances} | {i.layers[1] + 1 for i in instances})
    return [(first, end - 1) for first, end in itertools.pairwise(starts)]


def _meeting_place(phase: Phase, replicas: Sequence[int], routes: Routes) -> str:
    """The phase's own, else the replica on the first root's node, else the one with the fewest hops to it.

    Where no layers are replicated but a weight is tied, a node that hosts nothing else does not take part.
    """
    nodes = list(dict.fromkeys(phase.instances[k].node for k in replicas))
    if phase.meet is not None and len(nodes) > 1 and phase.meet in phase.nodes():
        return phase.meet
    home = next(instance.node for instance in phase.instances if instance.into is None)
    return min(nodes, key=lambda node: routes.hops(node, home))


def add_averages(steps: Steps, phase: Phase, sizes: Sizes, routes: Routes, backward: list[int]) -> list[Step]:
    """Add the exchange of gradients under ``step``; returns the updates that follow it."""
    instances = phase.instances
    runs = [*replicated_layers(phase, routes), *replicated_ties(phase, sizes, routes)]
    runs = [run for run in runs if sizes.exchanged_bytes([run.layers])]
    messages = _messages(runs, instances)
    pushed = {}
    for (node, place), message in messages.items():
        after = [backward[k] for k in message.senders]
        pushed[node, place] = add(steps, Step(Kind.PUSH, message.senders[0], node, after, place, layers=message.layers))
    averages: dict[Run, int] = {}
    for run in runs:
        after = [pushed.get((instances[k].node, run.place), backward[k]) for k in run.replicas]
        step = Step(Kind.AVERAGE, run.replicas[0], run.place, list(dict.fromkeys(after)), layers=(run.layers,))
        averages[run.layers] = add(steps, step)
    pulled = {}
    for (node, place), message in messages.items():
        after = [averages[layers] for layers in message.layers]
        pulled[node, place] = add(steps, Step(Kind.PULL, message.senders[0], place, after, node, layers=message.layers))
    updates: list[Step] = []
    for k, layers in enumerate(updated_layers(instances, sizes.ties, phase.depth)):
        if layers:
            met = [run for run in runs if k in run.replicas and _overlap(run.layers, layers)]
            ready = [pulled.get((instances[k].node, run.place), averages[run.layers]) for run in met]
            after = [backward[k], *dict.fromkeys(ready)]
            updates.append(Step(Kind.UPDATE, k, instances[k].node, after, layers=layers))
    return updates


class GradientMessage(NamedTuple):
    """The layers whose gradients a node sends to a meeting place, and its instances that hold any of them."""

    layers: tuple[Run, ...]
    senders: tuple[int, ...]


def _messages(
    runs: Sequence[ReplicatedLayers], instances: Sequence[Instance]
) -> dict[tuple[str, str], GradientMessage]:
    """What each node sends to each meeting place, in one message."""
    layers: dict[tuple[str, str], dict[Run, None]] = {}
    senders: dict[tuple[str, str], set[int]] = {}
    for run in runs:
        for k in run.replicas:
            ends = (instances[k].node, run.place)
            if ends[0] != ends[1]:
                layers.setdefault(ends, {})[run.layers] = None
                senders.setdefault(ends, set()).add(k)
    return {ends: GradientMessage(tuple(held), tuple(sorted(senders[ends]))) for ends, held in layers.items()}


def replicated_ties(phase: Phase, sizes: Sizes, routes: Routes) -> list[ReplicatedLayers]:
    """Ties whose layers several instances hold, as layers of their own, and where their gradients meet."""
    found = []
    for number, layers in enumerate(sizes.ties, phase.depth + 1):
        replicas = tuple(k for k, instance in enumerate(phase.instances) if holds_tie(instance.layers, layers))
        if len(replicas) > 1:
            found.append(ReplicatedLayers((number, number), replicas, _meeting_place(phase, replicas, routes)))
    return found


def holds_tie(run: Run, layers: Sequence[int]) -> bool:
    """Whether one of the layers that share a weight is in a run."""
    return any(run[0] <= number <= run[1] for number in layers)


def held_numbers(run: Run, ties: Sequence[Sequence[int]], depth: int) -> list[int]:
    """The layers of a run, and the ties that it holds, numbered from ``depth`` + 1 on."""
    own = [number for number, layers in enumerate(ties, depth + 1) if holds_tie(run, layers)]
    return [*range(run[0], run[1] + 1), *own]


def updated_layers(
    instances: Sequence[Instance], ties: Sequence[Sequence[int]] = (), depth: int = 0
) -> list[tuple[Run, ...]]:
    """For each instance the layers that it updates: those that no earlier one on its node holds; and ties, likewise."""
    held: dict[str, set[int]] = {}
    found = []
    for instance in instances:
        before = held.setdefault(instance.node, set())
        own = [number for number in held_numbers(instance.layers, ties, depth) if number not in before]
        before.update(own)
        found.append(runs_of(own))
    return found


def _overlap(run: Run, others: Sequence[Run]) -> bool:
    return any(run[0] <= last and first <= run[1] for first, last in others)
