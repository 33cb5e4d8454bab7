"""The operations of one iteration of an instance tree, as a graph without times.

The event clock plays this graph, and the runtime compiles the programs of its workers from it, so that clock and
reality have the same operations; ``steps`` says what they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from palmette.cost.accumulation import divided_at_update
from palmette.cost.batch_norm import shared_norms
from palmette.cost.buckets import bucket_runs, divided_instances
from palmette.cost.clipping import add_total_norm, add_tree_norms
from palmette.cost.delivery import Sent, upload_bytes
from palmette.cost.divisor import add_total_divisor
from palmette.cost.halves import halved_instances
from palmette.cost.labels import labels_by_instance
from palmette.cost.optimizer import PLAIN_SGD, OptimizerCost
from palmette.cost.order import add_order
from palmette.cost.passes import BackwardPass, ForwardPass
from palmette.cost.replicas import AveragingSteps, exchanged_runs
from palmette.cost.ring import add_ring
from palmette.cost.routes import Routes
from palmette.cost.sizes import Run, Sizes
from palmette.cost.steps import NUMBER_BYTES, Iteration, Kind, Step, Steps, add
from palmette.spec.codec import CODEC_KINDS, LABEL_BYTES
from palmette.spec.exchange import MASKED_BYTES
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance

EVERYTHING: Run = (1, sys.maxsize)
"""All layers."""


def iteration(
    phase: Phase,
    sizes: Sizes,
    routes: Routes,
    sent: Sent | None = None,
    *,
    optimizer: OptimizerCost = PLAIN_SGD,
) -> Iteration:
    """The operations of one iteration under ``sync: step``; without exchange where nothing is replicated."""
    made = with_sizes(iteration_steps(phase, sizes, routes, optimizer), phase, sizes)
    return partly_sent(made, phase, sizes, sent)


def iteration_steps(phase: Phase, sizes: Sizes, routes: Routes, optimizer: OptimizerCost = PLAIN_SGD) -> Steps:
    """The operations of an iteration, whatever the samples: the same for phases that differ only in those.

    Where there is one network, its nodes exchange the norm of gradients and the divisor of the loss, if ``optimizer``
    needs them. Where gradients accumulate, the exchange is apart (``update``).
    """
    steps = _whole_steps(phase, sizes, routes, optimizer)
    return divided_at_update(steps)[0] if _accumulates(phase, optimizer) else steps


def update(phase: Phase, sizes: Sizes, routes: Routes, optimizer: OptimizerCost) -> Iteration | None:
    """The operations of an update with accumulated gradients, where they are no part of the iteration."""
    if not _accumulates(phase, optimizer):
        return None
    steps = divided_at_update(_whole_steps(phase, sizes, routes, optimizer))[1]
    return with_sizes(steps, phase, sizes) if steps else None


def _accumulates(phase: Phase, optimizer: OptimizerCost) -> bool:
    return optimizer.accumulate > 1 and phase.sync_kind.one_model


def _whole_steps(phase: Phase, sizes: Sizes, routes: Routes, optimizer: OptimizerCost) -> Steps:
    """The operations of an iteration with its update."""
    steps: Steps = []
    order = topological(phase.instances)
    shared = shared_norms(phase, sizes, routes)
    runs = exchanged_runs(phase, sizes, routes) if phase.sync_kind.one_model else []
    apart = phase.overlap and not shared and not _accumulates(phase, optimizer)
    runs = bucket_runs(runs, phase, sizes) if apart else runs
    parts = divided_instances(runs, phase) if apart else {}
    forward = ForwardPass(steps, phase, sizes, shared, parts=parts).add(order)
    if optimizer.divisor_varies and phase.sync_kind.one_model:
        forward = add_total_divisor(steps, phase, forward)
    together = bool(shared) or any(step.kind is Kind.DIVISOR for step in steps)
    halved = () if together else halved_instances(phase, sizes, parts)
    back = BackwardPass(steps, phase, forward, sizes, shared, parts=parts, halved=halved)
    backward = back.add(order[::-1])
    add_order(steps, phase)
    if phase.sync_kind.one_model:
        match phase.averaging:
            case "ring":
                updates = add_ring(steps, phase, sizes, routes, backward)
            case "meet":
                computed = back.computed if apart else lambda k, _: backward[k]
                updates = AveragingSteps(phase, sizes, runs, computed, apart=apart).add(steps, backward)
            case _:
                assert_never(phase.averaging)
        if optimizer.clips_norm:
            add_total_norm(steps, phase, sizes, updates)
        steps += updates
        _add_uploads(steps, phase)
    else:
        updates = [
            Step(Kind.UPDATE, k, instance.node, [backward[k]], layers=(instance.layers,))
            for k, instance in enumerate(phase.instances)
        ]
        if optimizer.clips_norm and phase.sync_kind.averages_weights:
            add_tree_norms(steps, phase, sizes, updates)
        steps += updates
    return steps


def _add_uploads(steps: Steps, phase: Phase) -> None:
    """Samples for a later phase, from every owner to the nodes that will need them."""
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    owners = {source.node: k for k, source in reversed(list(enumerate(phase.sources)))} if phase.upload else {}
    for owner, number in owners.items():
        for to in phase.upload:
            if to != owner:
                add(steps, Step(Kind.UPLOAD, index[phase.sources[number].into], owner, [], to, number))


def with_sizes(steps: Steps, phase: Phase, sizes: Sizes) -> Iteration:
    """Operations with the samples of a phase, and so the bytes of their transfers."""
    samples = samples_by_instance(phase)
    label_bytes = _label_bytes(phase)
    size_bytes = [0.0] * len(steps)
    transfers = [(number, step) for number, step in enumerate(steps) if step.to is not None]  # others carry nothing
    for number, step in transfers:
        match step.kind:
            case Kind.DATA:
                assert step.source is not None
                source = phase.sources[step.source]
                size_bytes[number] = source.samples * sizes.sample_bytes(source.node, phase.input_as)
            case Kind.UPLOAD:
                size_bytes[number] = upload_bytes(phase, sizes, step.node)
            case Kind.OUTPUT:
                instance = phase.instances[step.instance]
                size = sizes.message_bytes(instance.layers[1], samples[step.instance], instance.codec)
                size_bytes[number] = size + label_bytes[step.instance]
            case Kind.GRADIENT:
                instance = phase.instances[step.instance]
                many = samples[step.instance]
                size_bytes[number] = sizes.gradient_message_bytes(instance.layers[1], many, instance.codec)
            case Kind.STATISTICS | Kind.TOTALS:
                assert step.point is not None
                size_bytes[number] = step.point.size_bytes
            case Kind.PUSH | Kind.PULL:
                size_bytes[number] = _replica_bytes(phase, step, sizes) / step.parts
            case Kind.SQUARES | Kind.TOTAL_NORM | Kind.COUNT | Kind.TOTAL_DIVISOR:
                size_bytes[number] = NUMBER_BYTES
            case (Kind.FORWARD | Kind.RECOMPUTE | Kind.BACKWARD | Kind.BACKWARD_INPUT | Kind.BACKWARD_WEIGHTS) | (
                Kind.UPDATE | Kind.COMBINE | Kind.AVERAGE | Kind.NORM | Kind.DIVISOR
            ):
                raise AssertionError(f"{step.kind} carries nothing")
            case _:
                assert_never(step.kind)
    return Iteration(steps, samples, size_bytes)


def partly_sent(made: Iteration, phase: Phase, sizes: Sizes, sent: Sent | None) -> Iteration:
    """The same operations where only a part of samples and outputs has to be sent whole; None is all of them."""
    if sent is None:
        return made
    size_bytes = made.size_bytes.copy()
    known = [sent.known.get(instance.id, 0.0) for instance in phase.instances] if sent.known else ()
    for number, step in enumerate(made.steps):
        if step.kind is Kind.DATA:
            assert step.source is not None
            size_bytes[number] *= sent.samples[step.source]
        elif step.kind is Kind.OUTPUT and known and known[step.instance]:
            instance, many = phase.instances[step.instance], made.samples[step.instance]
            first, later = (
                sizes.message_bytes(instance.layers[1], many, instance.codec, known=part)
                for part in (0.0, known[step.instance])
            )
            size_bytes[number] += later - first
    return made._replace(size_bytes=size_bytes, known=known)


def _replica_bytes(phase: Phase, step: Step, sizes: Sizes) -> float:
    """Bytes of the gradients or weights of replicas in a push or a pull."""
    kind = phase.sync_kind
    if step.piece is not None:
        return sizes.piece_bytes(step.layers, step.piece.span)
    if kind.one_model:
        return sizes.exchanged_bytes(step.layers, phase.exchange)
    if phase.secure_aggregation and step.kind is Kind.PUSH:
        return MASKED_BYTES * sizes.trained_numbers(step.layers)
    return (
        sizes.difference_bytes(step.layers, phase.exchange)
        if kind.averages_weights
        else sizes.trainable_bytes(step.layers)
    )


def _label_bytes(phase: Phase) -> list[int]:
    """Bytes of labels beside the output of each instance, where its codec counts them."""
    counts = [CODEC_KINDS[instance.codec].counts_labels for instance in phase.instances]
    if not any(counts):
        return [0] * len(counts)
    labels = labels_by_instance(phase)
    return [LABEL_BYTES * many if counted else 0 for many, counted in zip(labels, counts, strict=True)]


def exchange(phase: Phase, sizes: Sizes) -> Iteration:
    """The exchange of weights after a window: all to the server, and the average back."""
    steps: Steps = []
    away = _away(phase, range(len(phase.instances)))
    pushed = [add(steps, _push(phase, k)) for k in away]
    average = add(steps, _average(phase, pushed))
    for k in away:
        add(steps, _pull(phase, k, [average]))
    return with_sizes(steps, phase, sizes)


def exchange_fragment(phase: Phase, sizes: Sizes, run: Run) -> list[Iteration]:
    """The exchange of a part of the network in three parts, around which steps go on.

    Each instance takes a copy of its weights; these are exchanged; each puts the average in place.
    """
    held = [k for k, instance in enumerate(phase.instances) if _common_layers(instance.layers, run)]
    steps: Steps = []
    away = _away(phase, held)
    pushed = [add(steps, _push(phase, k, run)) for k in away]
    average = add(steps, _average(phase, pushed, run))
    for k in away:
        add(steps, _pull(phase, k, [average], run))
    copies: list[Steps] = [[_copy(phase, k, run) for k in held] for _ in range(2)]
    return [with_sizes(each, phase, sizes) for each in (copies[0], steps, copies[1])]


def _common_layers(layers: Run, run: Run) -> tuple[Run, ...]:
    """The layers of an instance that are in a run."""
    first, last = max(layers[0], run[0]), min(layers[1], run[1])
    return ((first, last),) if first <= last else ()


def _copy(phase: Phase, k: int, run: Run) -> Step:
    instance = phase.instances[k]
    return Step(Kind.COMBINE, k, instance.node, [], layers=_common_layers(instance.layers, run))


def exchange_apart(phase: Phase, sizes: Sizes, trees: Sequence[Sequence[int]]) -> list[Iteration]:
    """The same in parts, of which a round takes some: each tree's push, the average, and each tree's pull.

    ``trees`` are the numbers of their instances.
    """
    pushes: list[Steps] = [[_push(phase, k) for k in _away(phase, each)] for each in trees]
    pulls: list[Steps] = [[_pull(phase, k, []) for k in _away(phase, each)] for each in trees]
    return [with_sizes(steps, phase, sizes) for steps in (*pushes, [_average(phase, [])], *pulls)]


def _away(phase: Phase, numbers: Iterable[int]) -> list[int]:
    """Those of some instances that are not on the server."""
    return [k for k in numbers if phase.instances[k].node != phase.meeting_node]


def _push(phase: Phase, k: int, run: Run = EVERYTHING) -> Step:
    instance = phase.instances[k]
    return Step(Kind.PUSH, k, instance.node, [], phase.meeting_node, layers=_common_layers(instance.layers, run))


def _average(phase: Phase, pushed: list[int], run: Run = EVERYTHING) -> Step:
    return Step(Kind.AVERAGE, 0, phase.meeting_node, pushed, layers=_common_layers((1, phase.depth), run))


def _pull(phase: Phase, k: int, after: list[int], run: Run = EVERYTHING) -> Step:
    instance = phase.instances[k]
    return Step(Kind.PULL, k, phase.meeting_node, after, instance.node, layers=_common_layers(instance.layers, run))


def exchanges_weights(phase: Phase) -> bool:
    """Whether a window ends with an exchange: a layer has replicas, or a server or an outer optimizer is named."""
    held = sum(last - first + 1 for first, last in (instance.layers for instance in phase.instances))
    return phase.server is not None or phase.outer is not None or held > phase.depth


def worker_step(tree: Phase, sizes: Sizes, sent: Sent | None = None) -> Iteration:
    """One worker's step against a parameter server: pull weights, compute, push gradients; the server updates."""
    steps: Steps = []
    order, server = topological(tree.instances), tree.meeting_node
    forward = ForwardPass(steps, tree, sizes).add(order)
    backward = BackwardPass(steps, tree, forward, sizes).add(order[::-1])
    given = []
    for k, i in enumerate(tree.instances):
        if i.node == server:
            given.append(backward[k])
            continue
        pull = add(steps, Step(Kind.PULL, k, server, [], i.node, layers=(i.layers,)))
        steps[forward[k]].after.append(pull)
        given.append(add(steps, Step(Kind.PUSH, k, i.node, [backward[k]], server, layers=(i.layers,))))
    add(steps, Step(Kind.UPDATE, 0, server, given, layers=((1, tree.depth),)))
    return partly_sent(with_sizes(steps, tree, sizes), tree, sizes, sent)


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


def sources_by_instance(phase: Phase) -> list[list[int]]:
    """For each instance, the sources whose samples reach it, in the order of its input."""
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    reach: list[list[int]] = [[] for _ in phase.instances]
    for number, source in enumerate(phase.sources):
        reach[index[source.into]].append(number)
    for k in topological(phase.instances):
        into = phase.instances[k].into
        if into is not None:
            reach[index[into]] += reach[k]
    return reach


def topological(instances: Sequence[Instance]) -> list[int]:
    """Numbers of the instances, each after all that feed it: by first layer, then in the plan's order."""
    return sorted(range(len(instances)), key=lambda k: instances[k].layers[0])


def trees(phase: Phase) -> list[Phase]:
    """One phase for each root, with the sources and instances that lead to it.

    What can only be said of several trees, it does not say.
    """
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
    common: dict[str, Any] = {"clients": None, "secure_aggregation": False}
    if not phase.sync_kind.one_model:
        common["server"] = phase.meeting_node
    return [
        phase.model_copy(update={"sources": tuple(sources), "instances": tuple(instances), **common})
        for sources, instances in parts.values()
    ]


def sources_by_tree(phase: Phase) -> list[list[int]]:
    """The numbers of the sources of each tree, in the order of ``trees``."""
    ids = [{instance.id for instance in tree.instances} for tree in trees(phase)]
    return [[k for k, source in enumerate(phase.sources) if source.into in own] for own in ids]


def instances_by_tree(phase: Phase) -> list[list[int]]:
    """The numbers of the instances of each tree, in the order of ``trees``."""
    ids = [{instance.id for instance in tree.instances} for tree in trees(phase)]
    return [[k for k, instance in enumerate(phase.instances) if instance.id in own] for own in ids]
