"""Whether a plan, its profile and its network fit one another."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from palmette.compress.channels import PruningOrigin
from palmette.control.run.callables import schedule_of
from palmette.control.run.request import Request
from palmette.cost.check import check
from palmette.cost.evaluate import Evaluator
from palmette.cost.kept_outputs import keeping_channels
from palmette.cost.operations import exchanges_weights, trees
from palmette.errors import ArgumentFault, Fault, InputError, listed
from palmette.measure.layer_sizes import batch_norm_channels
from palmette.runtime.data.epoch_length import tree_steps
from palmette.runtime.options import Options
from palmette.runtime.training.job import Job
from palmette.runtime.training.phase_length import phase_iterations
from palmette.spec.files import validated
from palmette.spec.learning import Learning
from palmette.spec.plan import Averaging, Plan
from palmette.spec.profile import Profile
from palmette.zoo.adapters import Adapters
from palmette.zoo.freezing import frozen_network
from palmette.zoo.models import Network, in_dtype, load_network
from palmette.zoo.recipes.recipe import Recipe

EXECUTED: tuple[Averaging, ...] = ("meet",)
"""How workers can exchange gradients; the others are estimated only."""


def refuse_unrunnable(plan: Plan, prices: Evaluator) -> None:
    """Refuse a plan that cannot be executed.

    Raises:
        InputError: holds every reason.
    """
    wrong = check(plan, prices)
    wrong += [
        Fault(f"phases[{k}].averaging", phase.averaging, "can be estimated, but not run; expected meet")
        for k, phase in enumerate(plan.phases)
        if phase.averaging not in EXECUTED
    ]
    if wrong:
        raise InputError(wrong)


def refuse_unprunable(plan: Plan, origin: PruningOrigin | None) -> None:
    """Refuse phases whose model cannot be made: too small, or larger than the one before.

    Raises:
        InputError: holds a fault for each.
    """
    wrong = []
    for k, phase in enumerate(plan.phases):
        before = plan.phases[k - 1].pruning if k else 0.0
        if phase.pruning < before:
            expected = f"{before:g} is removed before and cannot be restored; expected at least that"
            wrong.append(Fault(f"phases[{k}].pruning", phase.pruning, expected))
        try:
            if origin is not None:
                origin.cuts(phase.pruning)
        except InputError as error:
            wrong += [Fault(f"phases[{k}].pruning", fault.value, fault.expected) for fault in error.faults]
    if wrong:
        raise InputError(wrong)


def refuse_unknown_norms(plan: Plan, network: Network, profile: Profile) -> None:
    """Refuse to synchronise batch norms of which the profile and the network differ: workers would wait for ever.

    Raises:
        InputError: names the layers.
    """
    if all(phase.batch_norm == "parts" for phase in plan.phases):
        return
    wrong = [
        Fault(
            f"profile.layers[{k}].batch_norm_channels",
            list(known.batch_norm_channels),
            f"{plan.model}'s layer {layer.name} has {list(found)}; expected a profile of this network",
        )
        for k, (layer, known, found) in enumerate(
            zip(network.layers, profile.layers, batch_norm_channels(network), strict=True)
        )
        if known.batch_norm_channels != found
    ]
    if wrong:
        raise InputError(wrong)


def refuse_no_update(job: Job) -> None:
    """Refuse to accumulate gradients for so long that there is no update, as an exchange of weights drops them.

    Raises:
        InputError: names the longest that is possible.
    """
    phases, many = job.plan.phases, job.options.accumulate
    most = sum(phase_iterations(phase, job) for phase in phases)
    steps = [
        min(tree_steps(phase, job.evaluator, job.epoch_data))
        for phase in phases
        if phase.sync_kind.averages_weights and not phase.sync_kind.keeps_optimizers and exchanges_weights(phase)
    ]
    if many > min([most, *steps]):
        left = "iterations in the run" if most < min(steps, default=most + 1) else "steps of a tree between exchanges"
        expected = f"there are {min([most, *steps])} {left}; expected at most as many"
        raise InputError(ArgumentFault("accumulate", many, expected))


def refuse_norm_of_branches(plan: Plan, options: Options) -> None:
    """Refuse to clip by the norm of a network that a tree under ``epoch`` has more than once in parts.

    Branches of such a tree have weights of their own for the same layers, so that there is no gradient of the network.

    Raises:
        InputError: names the tree.
    """
    if options.clip_norm is None:
        return
    for k, phase in enumerate(plan.phases):
        for tree in trees(phase) if phase.sync_kind.averages_weights else ():
            if sum(last - first + 1 for first, last in (each.layers for each in tree.instances)) > phase.depth:
                expected = (
                    f"has several branches, which under {phase.sync} have no gradient in common that could be clipped"
                )
                root = next(each.id for each in tree.instances if each.into is None)
                raise InputError(Fault(f"phases[{k}]", f"the tree of {root}", f"{expected}; expected no clip_norm"))


def other_precision(profile: Profile, options: Options) -> str | None:
    """What to say where times were measured in another precision than a run computes in; None where they were not."""
    asked, known = options.autocast, profile.precision
    if asked == known or all(times.source == "modelled" for times in profile.nodes.values()):
        return None
    measure = f"palmette profile --precision {asked}" if asked else "palmette profile"
    measured = known or "the precision of the weights"
    return f"the estimate has times that were measured in {measured}; {measure} measures those of this run"


def other_learning_rate(plan: Plan, options: Options) -> str | None:
    """What to say where a plan for a loss counts on another learning rate than a run has; None where it does not."""
    if plan.asked is None or plan.asked.loss is None or plan.asked.options.get("learning") is None:
        return None
    own = validated(Learning, plan.asked.options["learning"], "asked.options.learning").schedule
    if own is None or own == (mine := schedule_of(options.schedule, options.warmup)):
        return None
    return (
        f"the plan counts on the learning rate that the runs of its learning curve had, {own.shown}; this run has "
        f"{mine.shown}, so that another loss may be reached: palmette run {own.options}, or palmette pilot with its own"
    )


def outputs_not_kept(plan: Plan, network: Network) -> str | None:
    """What to say where outputs should travel as deltas, but samples differ in length; None where they do not."""
    ids = [phase.instances[k].id for phase in plan.phases for each in keeping_channels(phase) for k in each.instances]
    if not ids or not network.varying:
        return None
    return f"lengths of samples vary: outputs of {listed(ids)} travel as new ones each time, and nothing is kept"


def load_checked_network(
    model: str | Recipe, request: Request, profile: Profile, adapters: Adapters | None = None
) -> Network:
    """The network of a plan, if the profile is of it; ``adapters`` are those of the plan's network.

    Raises:
        InputError: it cannot be loaded, or the profile is of another one.
    """
    network = load_network(model, request.input_shape, seed=request.options.seed, adapters=adapters)
    network = frozen_network(network, request.options.freeze)
    name = network.name
    if len(network.layers) != len(profile.layers):
        layers = f"it has {len(network.layers)} layers, the profile {len(profile.layers)}"
        raise InputError(Fault("model", name, f"{layers}; expected a profile of this network"))
    wrong = [
        Fault(f"profile.layers[{k}].parameter_bytes", known.parameter_bytes, f"{name}'s layer {layer.name} has weights")
        for k, (layer, known) in enumerate(zip(network.layers, profile.layers, strict=True))
        if known.parameter_bytes == 0 and any(weight.numel() for weight in layer.module.parameters())
    ]
    wrong += _frozen_in_profile(network, profile)
    if wrong:  # where the profile knows of no weights, replicas would not synchronise them
        raise InputError(wrong)
    return in_dtype(network, getattr(torch, request.options.dtype))


def _frozen_in_profile(network: Network, profile: Profile) -> Iterator[Fault]:
    """Layers that learn although the profile knows of nothing that does: no gradient would come back to them."""
    expected = "expected a profile of this network"
    for k, (layer, known) in enumerate(zip(network.layers, profile.layers, strict=True)):
        where, learns = f"profile.layers[{k}]", f"{network.name}'s layer {layer.name}"
        if known.trainable_bytes == 0 and any(weight.requires_grad for weight in layer.module.parameters()):
            yield Fault(f"{where}.trainable_bytes", 0, f"{learns} has weights that are trained; {expected}")
        if known.gradient_bytes == 0 and any(spec.gradient for spec in layer.outputs):
            yield Fault(f"{where}.gradient_bytes", 0, f"{learns}, or one before it, is trained; {expected}")
