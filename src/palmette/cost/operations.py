"""What happens in one iteration of an instance tree, as a graph of operations without times.

The event clock plays this graph, and the runtime compiles the programs of its workers from it, so that clock and
reality have the same operations:

    data ─▶ forward ─▶ output ─▶ forward … ─▶ backward ─▶ gradient ─▶ backward … ─▶ push ─▶ average ─▶ pull ─▶ update

Calls (forward, backward, update) belong to an instance; transfers (data, output, gradient, push, pull) carry bytes
between nodes and do not exist where both ends are on one node. An average takes no time: it is where the gradients
of replicated layers meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from palmette.cost.routes import Routes
from palmette.cost.sizes import Run, Sizes
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance


class Kind(Enum):
    """What an operation does."""

    DATA = "data"
    FORWARD = "forward"
    OUTPUT = "output"
    BACKWARD = "backward"
    GRADIENT = "gradient"
    PUSH = "push"
    AVERAGE = "average"
    PULL = "pull"
    UPDATE = "update"


@dataclass(slots=True)
class Step:
    """One operation: where it happens, of which instance, after which others.

    ``node`` is the node of a call, the sender of a transfer; ``to`` the receiver of a transfer, else None.
    ``layers`` are those whose gradients a push, an average or a pull is about, as runs (first, last).
    """

    kind: Kind
    instance: int
    node: str
    after: list[int]
    to: str | None = None
    source: int | None = None
    layers: tuple[Run, ...] = ()


Steps = list[Step]


class Iteration(NamedTuple):
    """The operations of an iteration, the samples that each instance computes on, the bytes of each transfer."""

    steps: Steps
    samples: list[int]
    size_bytes: list[float]


@dataclass(frozen=True, slots=True)
class Replicated:
    """A run of layers that several instances hold, and the instance at which their gradients meet."""

    layers: Run
    replicas: tuple[int, ...]
    meet: int


def iteration(phase: Phase, sizes: Sizes, routes: Routes) -> Iteration:
    """The operations of one iteration under ``sync: step``; without exchange where nothing is replicated."""
    return sized(order_of_work(phase, sizes, routes), phase, sizes)


def order_of_work(phase: Phase, sizes: Sizes, routes: Routes) -> Steps:
    """The operations of an iteration, whatever the samples: the same for phases that differ only in those."""
    steps: Steps = []
    order = topological(phase.instances)
    forward = _forwards(steps, phase, order)
    backward = _backwards(steps, phase, order, forward)
    arrived = _averages(steps, phase, sizes, routes, backward) if phase.sync == "step" else {}
    for k, instance in enumerate(phase.instances):
        _add(steps, Step(Kind.UPDATE, k, instance.node, [backward[k], *arrived.get(k, ())]))
    return steps


def sized(steps: Steps, phase: Phase, sizes: Sizes) -> Iteration:
    """Operations with the samples of a phase, and so the bytes of their transfers."""
    samples = samples_by_instance(phase)
    size_bytes = [0.0] * len(steps)
    for number, step in enumerate(steps):
        if step.to is None:
            continue
        if step.layers:
            size_bytes[number] = sizes.weight_bytes(step.layers)
        elif step.source is not None:
            size_bytes[number] = phase.sources[step.source].samples * sizes.input_bytes
        else:
            instance = phase.instances[step.instance]
            size_bytes[number] = sizes.message_bytes(instance.layers[1], samples[step.instance], instance.codec)
    return Iteration(steps, samples, size_bytes)


def _add(steps: Steps, step: Step) -> int:
    """Append an operation and return its number."""
    steps.append(step)
    return len(steps) - 1


def exchange(phase: Phase, sizes: Sizes) -> Iteration:
    """The exchange of weights after an epoch of federated averaging: all to the server, and the average back."""
    steps: Steps = []
    server = phase.meeting_node
    away = [(k, i) for k, i in enumerate(phase.instances) if i.node != server]
    pushed = [_add(steps, Step(Kind.PUSH, k, i.node, [], server, layers=(i.layers,))) for k, i in away]
    average = _add(steps, Step(Kind.AVERAGE, 0, server, pushed, layers=((1, phase.depth),)))
    for k, i in away:
        _add(steps, Step(Kind.PULL, k, server, [average], i.node, layers=(i.layers,)))
    return sized(steps, phase, sizes)


def exchanges_weights(phase: Phase) -> bool:
    """Whether an epoch of federated averaging ends with an exchange: a layer has replicas, or a server is named."""
    held = sum(last - first + 1 for first, last in (instance.layers for instance in phase.instances))
    return phase.server is not None or held > phase.depth


def worker_step(tree: Phase, sizes: Sizes) -> Iteration:
    """One worker's step against a parameter server: pull weights, compute, push gradients; the server updates."""
    steps: Steps = []
    order, server = topological(tree.instances), tree.meeting_node
    forward = _forwards(steps, tree, order)
    backward = _backwards(steps, tree, order, forward)
    given = []
    for k, i in enumerate(tree.instances):
        if i.node == server:
            given.append(backward[k])
            continue
        pull = _add(steps, Step(Kind.PULL, k, server, [], i.node, layers=(i.layers,)))
        steps[forward[k]].after.append(pull)
        given.append(_add(steps, Step(Kind.PUSH, k, i.node, [backward[k]], server, layers=(i.layers,))))
    _add(steps, Step(Kind.UPDATE, 0, server, given, layers=((1, tree.depth),)))
    return sized(steps, tree, sizes)


def samples_by_instance(phase: Phase) -> list[int]:
    """Samples of an iteration that reach each instance, in the plan's order."""
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    samples = [0] * len(phase.instances)
    for source in phase.sources:
        samples[index[source.into]] += source.samples
    for k in topological(phase.instances):
        into = phase.instances[k].into
        if into is not None:
            samples[index[into]] += samples[k]
    return samples


def topological(instances: Sequence[Instance]) -> list[int]:
    """Numbers of the instances, each after all that feed it: by first layer, then in the plan's order."""
    return sorted(range(len(instances)), key=lambda k: instances[k].layers[0])


def trees(phase: Phase) -> list[Phase]:
    """The phase taken apart: one for each root, with the sources and instances that lead to it."""
    index = {instance.id: instance for instance in phase.instances}

    def root(feeder: Feed | Instance) -> str:
        at = index[feeder.into] if isinstance(feeder, Feed) else feeder
        while at.into is not None:
            at = index[at.into]
        return at.id

    parts: dict[str, tuple[list[Feed], list[Instance]]] = {}
    for instance in phase.instances:
        parts.setdefault(root(instance), ([], []))[1].append(instance)
    for source in phase.sources:
        parts[root(source)][0].append(source)
    alike = {"server": phase.meeting_node} if phase.sync != "step" else {}
    return [
        phase.model_copy(update={"sources": tuple(sources), "instances": tuple(instances), **alike})
        for sources, instances in parts.values()
    ]


def replicated_layers(instances: Sequence[Instance], routes: Routes) -> list[Replicated]:
    """Runs of layers held by the same several instances, and where each run's gradients meet.

    They meet at the replica on the first root's node; if none is there, at the one with the fewest hops to it,
    ties by list order.
    """
    home = next(instance.node for instance in instances if instance.into is None)
    starts = sorted({i.layers[0] for i in instances} | {i.layers[1] + 1 for i in instances})
    runs = []
    for first, end in itertools.pairwise(starts):
        replicas = tuple(k for k, i in enumerate(instances) if i.layers[0] <= first and end - 1 <= i.layers[1])
        if len(replicas) > 1:
            meet = min(replicas, key=lambda k: routes.hops(instances[k].node, home))
            runs.append(Replicated((first, end - 1), replicas, meet))
    return runs


def _forwards(steps: Steps, phase: Phase, order: list[int]) -> list[int]:
    instances = phase.instances
    index = {instance.id: k for k, instance in enumerate(instances)}
    feeds: list[list[int]] = [[] for _ in instances]
    for k, source in enumerate(phase.sources):
        target = index[source.into]
        to = instances[target].node
        if source.node != to:
            feeds[target].append(_add(steps, Step(Kind.DATA, target, source.node, [], to, k)))
    forward = [0] * len(instances)
    for k in order:
        instance = instances[k]
        forward[k] = done = _add(steps, Step(Kind.FORWARD, k, instance.node, feeds[k]))
        if instance.into is not None:
            into = index[instance.into]
            to = instances[into].node
            if to != instance.node:
                done = _add(steps, Step(Kind.OUTPUT, k, instance.node, [done], to))
            feeds[into].append(done)
    return forward


def _backwards(steps: Steps, phase: Phase, order: list[int], forward: list[int]) -> list[int]:
    instances = phase.instances
    index = {instance.id: k for k, instance in enumerate(instances)}
    backward = [0] * len(instances)
    for k in reversed(order):
        instance = instances[k]
        if instance.into is None:
            ready = forward[k]
        else:
            into = index[instance.into]
            ready = backward[into]
            sender = instances[into].node
            if sender != instance.node:
                ready = _add(steps, Step(Kind.GRADIENT, k, sender, [ready], instance.node))
        backward[k] = _add(steps, Step(Kind.BACKWARD, k, instance.node, [ready]))
    return backward


def _averages(steps: Steps, phase: Phase, sizes: Sizes, routes: Routes, backward: list[int]) -> dict[int, list[int]]:
    """Add push, average and pull; returns what each instance's update has to wait for."""
    instances = phase.instances
    runs = [run for run in replicated_layers(instances, routes) if sizes.weight_bytes([run.layers])]
    messages = _messages(runs, instances)
    pushed = {}
    for (k, to), layers in messages.items():
        pushed[k, to] = _add(steps, Step(Kind.PUSH, k, instances[k].node, [backward[k]], to, layers=layers))
    arrived: dict[int, list[int]] = {}
    averaged: dict[tuple[int, str], list[int]] = {key: [] for key in messages}
    for run in runs:
        place = instances[run.meet].node
        parts = [pushed.get((k, place), backward[k]) for k in run.replicas]
        average = _add(steps, Step(Kind.AVERAGE, run.meet, place, parts, layers=(run.layers,)))
        for k in run.replicas:
            waiting = averaged[k, place] if (k, place) in averaged else arrived.setdefault(k, [])
            waiting.append(average)
    for (k, place), averages in averaged.items():
        pull = Step(Kind.PULL, k, place, averages, instances[k].node, layers=messages[k, place])
        arrived.setdefault(k, []).append(_add(steps, pull))
    return arrived


def _messages(runs: Sequence[Replicated], instances: Sequence[Instance]) -> dict[tuple[int, str], tuple[Run, ...]]:
    """The layers whose gradients each instance sends to each other node, in one message."""
    messages: dict[tuple[int, str], tuple[Run, ...]] = {}
    for run in runs:
        place = instances[run.meet].node
        for k in run.replicas:
            if instances[k].node != place:
                messages[k, place] = (*messages.get((k, place), ()), run.layers)
    return messages
