"""A node's share in an agreement: whose weights it holds, and what its programs do with them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from safetensors.torch import load as from_bytes
from torch import Tensor, nn

from palmette.runtime.program import Program
from palmette.runtime.worker.actions import Wire
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.executor import Actions

if TYPE_CHECKING:
    from palmette.runtime.worker.worker import Setup

Given = tuple[dict[str, Tensor], dict[str, Tensor]]


class Role(Protocol):
    """One kind of agreement, as a node takes part in it."""

    def actions(self, number: int, program: Program) -> Actions:
        """What the operations of a program do."""
        ...

    def state(self, layers: Sequence[int], after: int | None = None) -> Given:
        """Weights and buffers of these layers, and what the optimizer keeps for them, by the weights' names.

        Under ``step``, ``after`` asks for them as they were after an iteration that all have done.
        """
        ...


class Stock:
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


def optimizer_of(setup: Setup) -> dict[str, Tensor]:
    """The optimizer's state that a node goes on with."""
    return from_bytes(setup.optimizer) if setup.optimizer else {}


def given_state(compute: Compute, layers: Iterable[int]) -> Given:
    """The state of some layers as ``Role.state`` gives it."""
    weights: dict[str, Tensor] = {}
    for number in layers:
        weights |= {name: value.cpu().contiguous() for name, value in compute.layers[number].state_dict().items()}
    kept = compute.optimizer_state()
    optimizer = {key: value.cpu().contiguous() for key, value in kept.items() if key.rpartition("/")[0] in weights}
    return weights, optimizer
