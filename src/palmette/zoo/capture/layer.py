"""Layers: a module as consecutive modules, each taking one tensor and returning one.

    network(x)  ==  layers[-1].module( … layers[1].module(layers[0].module(x)) … )

in outputs, in gradients and in what batch norm keeps, in training and in evaluation. Consecutive layers run as
``nn.Sequential(*[layer.module for layer in layers[2:5]])``. A layer's module has the very weights of the
original module, and its own ``state_dict()`` has them under the original's names; every name is in exactly
one layer. So weights are saved, sent and averaged by those names: ``parameters``, ``state`` and
``load_state`` do that for any consecutive layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class NetworkLayer:
    """A unit that can be cut after; ``output_shape`` is that of one sample."""

    name: str
    module: nn.Module
    output_shape: tuple[int, ...]

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of its weights and buffers in the original module's ``state_dict``."""
        return tuple(self.module.state_dict())


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
