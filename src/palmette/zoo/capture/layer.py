"""Layers: a module as consecutive modules, each taking what the one before returns: one tensor, or a bundle.

    network(x)  ==  layers[-1].module( … layers[1].module(*layers[0].module(x)) … )

in outputs, in gradients and in what batch norm keeps, in training and in evaluation. Consecutive layers run as
``LayerChain(layer.module for layer in layers[2:5])``. A layer's module has the very weights of the
original module, and its own ``state_dict()`` has them under the original's names; every name is in exactly
one layer, but for tied weights: one that several layers use (an embedding that is the output head, too) is in each of
them. So weights are saved, sent and averaged by those names: ``parameters``, ``state`` and
``load_state`` do that for any consecutive layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from palmette.zoo.capture.bundle import TensorSpec

MIXES = "samples of a batch depend on one another in it, so a batch is not divided over several of its instances"


@dataclass(frozen=True, eq=False)
class NetworkLayer:
    """A unit that can be cut after; ``output_shape`` is that of one sample, of the first tensor that it returns.

    ``outputs`` describe all tensors that it returns, in order; ``note`` says why it is not cut further, where that
    leaves a large one. ``mixes_samples``: what it returns for one sample depends on the others of its batch, also
    where no batch norm takes statistics; so a batch is not divided over several of its instances.
    """

    name: str
    module: nn.Module
    output_shape: tuple[int, ...]
    outputs: tuple[TensorSpec, ...] = ()
    note: str = ""
    mixes_samples: bool = False

    def __post_init__(self) -> None:
        if not self.outputs:
            object.__setattr__(self, "outputs", (TensorSpec(self.output_shape),))

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of its weights and buffers in the original module's ``state_dict``."""
        return tuple(self.module.state_dict())


@dataclass(frozen=True)
class TiedWeight:
    """A weight that several layers use: their numbers, from 1, its name in each, and its bytes."""

    layers: tuple[int, ...]
    names: tuple[str, ...]
    size_bytes: int


def tied_weights(layers: Iterable[NetworkLayer]) -> tuple[TiedWeight, ...]:
    """The weights that several layers use and train, in the order of their first use."""
    found: dict[nn.Parameter, dict[int, list[str]]] = {}
    for number, layer in enumerate(layers, 1):
        for name, weight in layer.module.named_parameters(remove_duplicate=False):
            if weight.requires_grad:
                found.setdefault(weight, {}).setdefault(number, []).append(name)
    shared = {weight: uses for weight, uses in found.items() if len(uses) > 1}
    return tuple(TiedWeight(tuple(uses), own_names(uses), weight.nbytes) for weight, uses in shared.items())


def own_names(uses: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    """For each layer one of the names that a weight has in it, one that no other layer has if possible."""
    everywhere = Counter(name for names in uses.values() for name in names)
    return tuple(min(names, key=lambda name: everywhere[name]) for names in uses.values())


def notes(layers: Sequence[NetworkLayer]) -> tuple[str, ...]:
    """What a user should know: which layers are not cut further, and why; which mix samples; which share weights."""
    numbered = list(enumerate(layers, 1))
    whole = [f"layer {n}, {layer.name}: {layer.note}" for n, layer in numbered if layer.note]
    mixed = [f"layer {n}, {layer.name}: {MIXES}" for n, layer in numbered if layer.mixes_samples]
    shared: dict[tuple[int, ...], list[str]] = {}
    for tied in tied_weights(layers):
        shared.setdefault(tied.layers, []).append(tied.names[0])
    return (*whole, *mixed, *(_shared_note(numbers, names) for numbers, names in shared.items()))


def _shared_note(numbers: Sequence[int], names: Sequence[str]) -> str:
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    its = "their" if others else "its"
    return f"layers {' and '.join(map(str, numbers))} share {names[0]}{others}: {its} gradients meet in every iteration"


def parameters(layers: Iterable[NetworkLayer]) -> dict[str, nn.Parameter]:
    """The weights of some layers by their original names, tied ones once."""
    return {name: weight for layer in layers for name, weight in layer.module.named_parameters()}


def state(layers: Iterable[NetworkLayer]) -> dict[str, Tensor]:
    """Weights and buffers of some layers by their original names, sharing memory with them."""
    return {name: tensor for layer in layers for name, tensor in layer.module.state_dict().items()}


def load_state(layers: Iterable[NetworkLayer], values: Mapping[str, Tensor]) -> None:
    """Copy values into the weights and buffers of some layers; other names in ``values`` are ignored."""
    for layer in layers:
        layer.module.load_state_dict({name: values[name] for name in layer.state_names})
