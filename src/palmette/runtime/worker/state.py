"""Weights and optimizer state as a worker starts with them and reports them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import torch
from safetensors.torch import load as from_bytes
from torch import Tensor, nn

from palmette.runtime.worker.actions import Wire
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.setup import Setup, StateDicts


class LayerPool:
    """The layers that a node was given: the first who asks for one gets it, others a copy."""

    def __init__(self, layers: Mapping[int, nn.Module]) -> None:
        self._layers, self._gone = layers, set[int]()

    def take(self, numbers: Iterable[int]) -> dict[int, nn.Module]:
        """Some layers, with weights that nobody else has."""
        return {number: self._take(number) for number in numbers}

    def _take(self, number: int) -> nn.Module:
        if number in self._gone:
            return copy.deepcopy(self._layers[number])
        self._gone.add(number)
        return self._layers[number]


def wire_of(setup: Setup) -> Wire:
    """What samples look like between nodes."""
    return Wire(setup.shapes, setup.input_dtype, getattr(torch, setup.options.dtype))


def initial_optimizer_state(setup: Setup) -> dict[str, Tensor]:
    """The optimizer's state that a node goes on with."""
    return from_bytes(setup.optimizer) if setup.optimizer else {}


def state_dicts(compute: Compute, layers: Iterable[int]) -> StateDicts:
    """The state of some layers as ``WorkerSide.state`` returns it."""
    weights: dict[str, Tensor] = {}
    for number in layers:
        weights |= {name: value.cpu().contiguous() for name, value in compute.layers[number].state_dict().items()}
    kept = compute.optimizer_state()
    optimizer = {key: value.cpu().contiguous() for key, value in kept.items() if key.rpartition("/")[0] in weights}
    return weights, optimizer
