"""The weights of layers: which of them are trained, which several layers use, and copies that share them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping

from torch import nn

from palmette.cost.sizes import Run
from palmette.zoo.capture import TiedWeight


def trainable_weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable weights of a layer, by their original names."""
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}


def named_weights(
    modules: Iterable[nn.Module], weights: Collection[nn.Parameter]
) -> Iterator[tuple[str, nn.Parameter]]:
    """Some trainable weights of layers, under every name that they have there."""
    own = set(weights)
    for module in modules:
        yield from ((name, weight) for name, weight in trainable_weights(module).items() if weight in own)


def tie(layers: Mapping[int, nn.Module], tied: TiedWeight) -> nn.Parameter | None:
    """Make a tied weight one in all layers that use it; returns it, None if none of them is here."""
    found: nn.Parameter | None = None
    for number, name in zip(tied.layers, tied.names, strict=True):
        if number in layers:
            own = layers[number].get_parameter(name)
            found = own if found is None else found
            replace_weight(layers[number], own, found)
    return found


def replace_weight(module: nn.Module, old: nn.Parameter, new: nn.Parameter) -> None:
    """Use one weight in place of another, under all names that it has."""
    for name, weight in list(module.named_parameters(remove_duplicate=False)):
        if weight is old:
            path, _, leaf = name.rpartition(".")
            module.get_submodule(path).register_parameter(leaf, new)


def trained_weights(layers: Mapping[int, nn.Module], tied: Mapping[int, nn.Parameter]) -> dict[int, list[nn.Parameter]]:
    """The trained weights of each layer that it shares with no other, and those of ties."""
    shared = set(tied.values())
    found = {
        number: [weight for weight in trainable_weights(module).values() if weight not in shared]
        for number, module in layers.items()
    }
    return found | {number: [weight] if weight.requires_grad else [] for number, weight in tied.items()}


def trainable_layers(layers: Mapping[int, nn.Module], runs: Iterable[Run]) -> list[int]:
    """The layers of some runs that have trainable weights."""
    numbers = [number for first, last in runs for number in range(first, last + 1)]
    return [number for number in numbers if trainable_weights(layers[number])]


def shared_copy(module: nn.Module) -> nn.Module:
    """A copy of the module that shares its weights but has its own buffers."""
    return copy.deepcopy(module, {id(weight): weight for weight in module.parameters()})
