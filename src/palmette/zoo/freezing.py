"""Which weights are not trained: those without ``requires_grad`` in the user's module, and those of ``--freeze``.

A weight is trained if its ``requires_grad`` is set and no pattern of ``--freeze`` names it, by itself or by its layer.
Normalisation layers follow the mode of the whole network, as in PyTorch, even where the module itself froze their
weights; those that ``--freeze`` names use and keep the statistics they have.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import torch
from torch import nn

from palmette.errors import Argument, ArgumentFault, Fault, InputError, Message, expected_name
from palmette.zoo.capture import NetworkLayer, as_bundle, parameters
from palmette.zoo.capture.trial_runs import preserve_state
from palmette.zoo.models import Network

# To find out where gradients flow; batch norm refuses to train on a single value per channel.
SAMPLES = 2


def matching_weights(layers: Sequence[NetworkLayer], patterns: Iterable[str]) -> tuple[str, ...]:
    """The names of the weights that a pattern matches, by their own name or by that of their layer.

    Raises:
        InputError: a pattern matches nothing; names the nearest layer or weight.
    """
    named = [(layer.name, name) for layer in layers for name, _ in layer.module.named_parameters()]
    found: dict[str, None] = {}
    wrong = []
    for pattern in patterns:
        matched = [pair[1] for pair in named if any(fnmatch.fnmatchcase(name, pattern) for name in pair)]
        if not matched:
            known = list(dict.fromkeys([*(layer for layer, _ in named), *(name for _, name in named)]))
            wrong.append(ArgumentFault("freeze", pattern, expected_name(pattern, "layer with weights", known)))
        found |= dict.fromkeys(matched)
    if wrong:
        raise InputError(wrong)
    return tuple(found)


def frozen_network(network: Network, patterns: Iterable[str]) -> Network:
    """The network without gradients for the weights that patterns match, nor through layers below all that learn.

    Raises:
        InputError: a pattern matches nothing.
    """
    names = set(matching_weights(network.layers, patterns))
    if not names:
        return network
    whole = nn.ModuleList(layer.module for layer in network.layers)
    for layer in network.layers:
        for name, weight in layer.module.named_parameters():
            if name in names:
                weight.requires_grad_(False)
    weights = next((w.dtype for w in whole.parameters() if w.is_floating_point()), network.dtype)
    bundle, layers = network.cast(network.example_batch(SAMPLES), weights), []
    with preserve_state(whole), torch.enable_grad():
        whole.train()
        for layer in network.layers:
            bundle = as_bundle(layer.module(*bundle))
            found = zip(layer.outputs, bundle, strict=True)
            specs = tuple(replace(spec, gradient=each.requires_grad) for spec, each in found)
            layers.append(replace(layer, outputs=specs))
    return replace(network, layers=tuple(layers))


def freeze(module: nn.Module, names: Collection[str]) -> None:
    """Freeze the named weights of a module in training mode; what is frozen already stays so."""
    known = set(names)
    for name, weight in module.named_parameters():
        if name in known:
            weight.requires_grad_(False)
    _keep_statistics(module, known)


def _keep_statistics(module: nn.Module, names: set[str]) -> None:
    """Put normalisation layers whose weights are named, or whose whole module is, into evaluation mode."""
    weights = {name for name, _ in module.named_parameters()}
    whole = bool(weights) and weights <= names
    for path, part in module.named_modules():
        if getattr(part, "running_mean", None) is not None:
            own = {f"{path}.{name}".lstrip(".") for name, _ in part.named_parameters(recurse=False)}
            if whole or (own and own <= names):
                part.eval()


def refuse_all_frozen(model: str, layers: Sequence[NetworkLayer], names: Collection[str] = ()) -> None:
    """Refuse a network that has nothing to train.

    Raises:
        InputError: all of its weights are frozen, by themselves or by ``names``, or it has none.
    """
    known = parameters(layers)
    if not any(weight.requires_grad and name not in names for name, weight in known.items()):
        found = f"all of its {len(known)} weights are frozen" if known else "it has no weights"
        expected = Message(f"{found}; expected one with requires_grad that ", Argument("freeze"), " leaves")
        raise InputError(Fault("model", model, expected))
