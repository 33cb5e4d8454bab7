"""Whether a plan, its profile and its network fit one another."""

from __future__ import annotations

import torch

from palmette.compress.channels import PruningOrigin
from palmette.control.run.request import Request
from palmette.cost.check import check
from palmette.cost.evaluate import Evaluator
from palmette.errors import Fault, InputError
from palmette.measure.layer_sizes import batch_norm_channels
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.zoo.models import Network, load_network


def refuse_unrunnable(plan: Plan, prices: Evaluator) -> None:
    """Refuse a plan that cannot be executed.

    Raises:
        InputError: holds every reason.
    """
    wrong = check(plan, prices)
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


def load_checked_network(model: str, request: Request, profile: Profile) -> Network:
    """The network of a plan, if the profile is of it.

    Raises:
        InputError: it cannot be loaded, or the profile is of another one.
    """
    network = load_network(model, request.input_shape, seed=request.options.seed)
    if len(network.layers) != len(profile.layers):
        layers = f"it has {len(network.layers)} layers, the profile {len(profile.layers)}"
        raise InputError(Fault("model", model, f"{layers}; expected a profile of this network"))
    wrong = [
        Fault(
            f"profile.layers[{k}].parameter_bytes", known.parameter_bytes, f"{model}'s layer {layer.name} has weights"
        )
        for k, (layer, known) in enumerate(zip(network.layers, profile.layers, strict=True))
        if known.parameter_bytes == 0 and any(weight.numel() for weight in layer.module.parameters())
    ]
    if wrong:  # where the profile knows of no weights, replicas would not synchronise them
        raise InputError(wrong)
    for layer in network.layers:
        layer.module.to(getattr(torch, request.options.dtype))
    return network
