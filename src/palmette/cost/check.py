"""Whether a plan can be executed at all: everything that is wrong with it, each at its place in the plan."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from palmette.cost.delivery import upload_pairs
from palmette.cost.evaluate import Evaluator
from palmette.cost.handover import changes_model, model_transfer
from palmette.cost.kept_outputs import keeping_channels
from palmette.cost.labels import roots
from palmette.cost.operations import samples_by_instance
from palmette.cost.replicas import holds_tie, replicated_layers, replicated_ties
from palmette.errors import Fault, expected_name
from palmette.spec.plan import Phase, Plan
from palmette.spec.reading import size
from palmette.spec.units import ENERGY, SIZE

_ROUNDING = 1 + 1e-9


def check(plan: Plan, evaluator: Evaluator) -> list[Fault]:
    """Everything that keeps a plan from being executed on the evaluator's cluster with its profile."""
    if not plan.phases:
        expected = "the plan was made from tables alone; plan again with --profile and --cluster"
        return [Fault("phases", "none", expected)]
    found: list[Fault] = []
    for k, phase in enumerate(plan.phases):
        faults = list(missing(phase, evaluator)) or list(forbidden(phase, evaluator))
        found += [Fault(f"phases[{k}].{fault.field}", fault.value, fault.expected) for fault in faults]
    return found or [*_cut_off_phases(plan, evaluator), *over_energy_limits(plan, evaluator)]


def missing(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    """Nodes, layers and paths between nodes that are missing."""
    unknown = [*_unknown_nodes(phase, evaluator), *_wrong_model(phase, evaluator)]
    unknown += [*_wrong_norms(phase), *_wrong_ahead(phase), *_wrong_upload(phase), *_wrong_overlap(phase)]
    unknown = unknown or list(_wrong_exchange(phase, evaluator))
    yield from unknown
    if not unknown:
        yield from _unmeasured_nodes(phase, evaluator)
        yield from _wrong_sources(phase, evaluator)
        yield from _wrong_outputs(phase, evaluator)
        yield from _cut_off(phase, evaluator)


def _wrong_norms(phase: Phase) -> Iterator[Fault]:
    if phase.batch_norm == "whole" and not phase.sync_kind.one_model:
        expected = f"under {phase.sync} replicas have weights of their own; expected parts"
        yield Fault("batch_norm", phase.batch_norm, expected)


def _wrong_ahead(phase: Phase) -> Iterator[Fault]:
    if phase.ahead and not phase.sync_kind.one_model:
        yield Fault("ahead", True, f"under {phase.sync} trees take their steps apart; expected false")


def _wrong_upload(phase: Phase) -> Iterator[Fault]:
    if phase.upload and not phase.sync_kind.one_model:
        yield Fault("upload", ", ".join(phase.upload), f"under {phase.sync} trees train separately; expected none")


def _wrong_overlap(phase: Phase) -> Iterator[Fault]:
    if phase.overlap and not phase.sync_kind.one_model:
        yield Fault("overlap", True, f"under {phase.sync} no gradients are averaged; expected false")


def _wrong_exchange(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    codec, kind = phase.exchange.codec, phase.exchange.kind
    if kind.lossy and phase.sync_kind.has_server:
        expected = f"under {phase.sync} neither gradients nor weights are averaged; expected none"
        yield Fault("exchange.codec", codec, expected)
    elif kind.needs_shapes and not evaluator.sizes(phase.pruning).has_shapes:
        yield Fault(
            "exchange.codec", codec, "the profile has no shapes of weights; expected another codec, or a new profile"
        )


def forbidden(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    """What a node does not allow: private samples or labels that leave it, more CPU than its limit, too much memory."""
    places = {instance.id: instance.node for instance in phase.instances}
    for k, source in enumerate(phase.sources):
        owned = evaluator.cluster.nodes[source.node].source
        if owned is not None and owned.private and places[source.into] != source.node:
            expected = f"the source of {source.node} is private; expected its instance to run there"
            yield Fault(f"sources[{k}].into", f"{source.into} on {places[source.into]}", expected)
        if owned is not None and owned.private and set(phase.upload) - {source.node}:
            yield Fault("upload", ", ".join(phase.upload), f"the source of {source.node} is private; expected none")
    yield from _labels_that_leave(phase, evaluator)
    for k, instance in enumerate(phase.instances):
        limit = evaluator.cluster.nodes[instance.node].limits.cpu_share
        if instance.cpu_share > limit * _ROUNDING:
            expected = f"expected at most {limit:g}, the CPU limit of {instance.node}"
            yield Fault(f"instances[{k}].cpu_share", instance.cpu_share, expected)
    yield from _divided_ties(phase, evaluator)
    yield from _divided_mixing(phase, evaluator)
    yield from too_large(phase, evaluator)


def _divided_ties(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    """Layers that share a weight, where their gradients do not meet in every iteration."""
    if phase.sync_kind.one_model:
        return
    for layers in evaluator.sizes(phase.pruning).ties:
        first, last = min(layers), max(layers)
        holding = [instance for instance in phase.instances if holds_tie(instance.layers, layers)]
        apart = any(instance.layers[0] > first or instance.layers[1] < last for instance in holding)
        shared = f"layers {', '.join(map(str, layers))} share a weight"
        if phase.turns is not None:
            yield Fault("turns", "given", f"{shared}, which would have several turns; expected none")
        if apart or phase.sync_kind.has_server:
            yield Fault("sync", phase.sync, f"{shared}; expected step, or epoch with all of them in one instance")


def _divided_mixing(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    """Instances of layers in which samples depend on one another that see only a part of the batch."""
    mixing = evaluator.sizes(phase.pruning).mixing_layers
    if not mixing or not phase.sync_kind.one_model:
        return
    for k, (instance, samples) in enumerate(zip(phase.instances, samples_by_instance(phase), strict=True)):
        held = [layer for layer in mixing if instance.layers[0] <= layer <= instance.layers[1]]
        if held and samples < phase.batch:
            expected = f"samples of a batch depend on one another in layer {held[0]}; expected one instance for all"
            yield Fault(f"instances[{k}]", f"{samples} of {phase.batch} samples", expected)


def too_large(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    """What does not fit a node: the peak of its memory, or the samples that it keeps in its storage."""
    outputs = evaluator.kept_output_bytes(phase)
    for node, peak in evaluator.peak_bytes(phase).items():
        memory = evaluator.cluster.nodes[node].memory_bytes
        if memory is not None and peak > memory:
            expected = f"does not fit the memory of {node}, {SIZE.show(memory)}"
            if node in outputs:
                expected += f"; {size(outputs[node])} of it are kept outputs: expected another codec than int4-delta"
            yield Fault("instances", f"{size(peak)} on {node}", expected)
    for node, kept in evaluator.kept_bytes(phase, in_storage=True).items():
        storage = evaluator.cluster.nodes[node].storage_bytes
        if storage is not None and kept > storage:
            expected = f"samples do not fit the storage of {node}, {SIZE.show(storage)}; expected delivery: each"
            yield Fault("sources", f"{size(kept)} on {node}", expected)


def _labels_that_leave(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    """Losses of samples whose labels may not leave their node, computed elsewhere."""
    for k, (source, root) in enumerate(zip(phase.sources, roots(phase), strict=True)):
        owned = evaluator.cluster.nodes[source.node].source
        if owned is not None and owned.keeps_labels and root.node != source.node:
            expected = f"the source of {source.node} keeps its labels (private: labels)"
            yield Fault(
                f"sources[{k}].into",
                f"loss computed by {root.id} on {root.node}",
                f"{expected}; expected the last layer of its samples to run there",
            )


def _unknown_nodes(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    known = list(evaluator.cluster.nodes)
    named = [(f"sources[{k}].node", source.node) for k, source in enumerate(phase.sources)]
    named += [(f"instances[{k}].node", instance.node) for k, instance in enumerate(phase.instances)]
    named += [(f"upload[{k}]", name) for k, name in enumerate(phase.upload)]
    named += [(field, name) for field, name in (("server", phase.server), ("meet", phase.meet)) if name is not None]
    for field, name in named:
        if name not in evaluator.cluster.nodes:
            yield Fault(field, name, expected_name(name, "node", known))


def _wrong_model(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    table = evaluator.profile.variant(phase.pruning)
    if table is None:
        ratios = ", ".join(["0", *evaluator.profile.variants])
        yield Fault("pruning", phase.pruning, f"the profile has no such variant; expected one of {ratios}")
    elif phase.depth != len(table.layers):
        expected = f"the model has {len(table.layers)} layers; expected the last instance to end with the last"
        yield Fault("instances", f"layers up to {phase.depth}", expected)


def _unmeasured_nodes(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    table = evaluator.profile.variant(phase.pruning)
    known = table.nodes if table else {}
    used = [(f"instances[{k}].node", instance.node) for k, instance in enumerate(phase.instances)]
    if phase.sync_kind.has_server:
        used.append(("server", phase.meeting_node))
    for field, name in used:
        if name not in known:
            yield Fault(field, name, f"the profile has no times for it, only for {', '.join(known) or 'no node'}")


def _wrong_sources(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    taken: dict[str, int] = {}
    for k, source in enumerate(phase.sources):
        owned = evaluator.cluster.nodes[source.node].source
        if owned is None:
            yield Fault(f"sources[{k}].node", source.node, "owns no training data; expected a node with a source")
            continue
        if owned.stream and source.delivery == "once":
            yield Fault(
                f"sources[{k}].delivery", "once", f"samples of {source.node} are a stream, always new; expected each"
            )
        if owned.stream and set(phase.upload) - {source.node}:
            yield Fault("upload", ", ".join(phase.upload), f"samples of {source.node} are a stream; expected none")
        if phase.upload and owned.data is None and len({each.node for each in phase.sources}) > 1:
            expected = "sources of several nodes draw from common data; expected data for each, or one node"
            yield Fault("upload", ", ".join(phase.upload), expected)
        taken[source.node] = taken.get(source.node, 0) + (source.epoch_samples or 0)
        if taken[source.node] > owned.samples:
            yield Fault(
                f"sources[{k}].epoch_samples",
                source.epoch_samples,
                f"{source.node} owns {owned.samples} samples; expected at most as many",
            )


def _wrong_outputs(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    """Outputs that would be kept of samples that never come back."""
    for channel in keeping_channels(phase):
        nodes = dict.fromkeys(phase.sources[s].node for s in channel.sources)
        owned = {name: evaluator.cluster.nodes[name].source for name in nodes}
        for name in [name for name, source in owned.items() if source is not None and source.stream]:
            expected = f"samples of {name} are a stream, always new; expected int4 or int8"
            for k in channel.instances:
                yield Fault(f"instances[{k}].codec", phase.instances[k].codec, expected)


def _cut_off(phase: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    places = {instance.id: instance.node for instance in phase.instances}
    talks = [(f"sources[{k}].into", s.node, places[s.into]) for k, s in enumerate(phase.sources)]
    for k, instance in enumerate(phase.instances):
        if instance.into is not None:
            talks.append((f"instances[{k}].into", instance.node, places[instance.into]))
        if not phase.sync_kind.one_model:
            talks.append((f"instances[{k}].node", instance.node, phase.meeting_node))
    if phase.sync_kind.one_model:
        ties = replicated_ties(phase, evaluator.sizes(phase.pruning), evaluator.routes)
        for run in (*replicated_layers(phase, evaluator.routes), *ties):
            talks += [(f"instances[{k}].node", phase.instances[k].node, run.place) for k in run.replicas]
    talks += [("upload", owner, to) for owner, to in sorted(upload_pairs(phase))]
    for field, a, b in dict.fromkeys(talks):
        if evaluator.routes.between(a, b) is None:
            yield Fault(field, f"{a} to {b}", "there is no path between them; expected nodes that links join")


def _cut_off_phases(plan: Plan, evaluator: Evaluator) -> Iterator[Fault]:
    """Phases whose nodes the model cannot reach from those of the phase before."""
    for k, (before, after) in enumerate(pairwise(plan.phases), 1):
        found = model_transfer(before, after)
        yield from _cannot_distill(k, before, after, evaluator)
        for move in (*found.gather, *found.deliver):
            if evaluator.routes.between(move.sender, move.to) is None:
                expected = "there is no path for the model; expected nodes that links join"
                yield Fault(f"phases[{k}].instances", f"{move.sender} to {move.to}", expected)


def _cannot_distill(k: int, before: Phase, after: Phase, evaluator: Evaluator) -> Iterator[Fault]:
    """A distillation on a node that owns no data, or that the profile has no times for."""
    giver = before.meeting_node
    if after.compress != "distill" or not changes_model(before, after):
        return
    if evaluator.cluster.nodes[giver].source is None:
        expected = f"{giver}, where the phase before meets, owns no data to distill with; expected prune, or data there"
        yield Fault(f"phases[{k}].compress", "distill", expected)
    for pruning in (before.pruning, after.pruning):
        table = evaluator.profile.variant(pruning)
        if table is not None and giver not in table.nodes:
            yield Fault(
                f"phases[{k}].compress", "distill", f"the profile has no times for {giver}, which has to distill"
            )


def over_energy_limits(plan: Plan, evaluator: Evaluator) -> Iterator[Fault]:
    """Nodes that would use more energy than their limit: in the whole training, or in one iteration if unknown."""
    limits = {name: node.limits.energy_j for name, node in evaluator.cluster.nodes.items()}
    if not any(limits.values()):
        return
    spent: dict[str, float] = {}
    whole = all(phase.epochs is not None for phase in plan.phases)
    for phase in plan.phases:
        price = evaluator.price(phase)
        parts = [(price.nodes, price.iteration_s, 1)]
        if whole:
            epochs = [(price.first_epoch, 1), (price.epoch, (phase.epochs or 1) - 1)]
            parts = [(epoch.nodes, epoch.time_s, many) for epoch, many in epochs if many]
        for nodes, time_s, many in parts:
            for name, part in nodes.items():
                spent[name] = spent.get(name, 0.0) + many * (evaluator.node_energy_j(name, part, time_s) or 0.0)
    for name, energy_j in spent.items():
        limit = limits[name]
        if limit is not None and energy_j > limit * _ROUNDING:
            expected = f"expected at most {ENERGY.show(limit)}, its energy limit"
            yield Fault("phases", f"{energy_j:.6g} J on {name}", expected)
