"""Weights and optimizer state as a worker starts with them and reports them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from safetensors.torch import load as from_bytes
from torch import Tensor, nn

from palmette.compress.error_feedback import is_of_exchange
from palmette.runtime.options import Options
from palmette.runtime.worker.actions import MessageFormat
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.setup import Setup, StateDicts
from palmette.spec.plan import Phase

C = TypeVar("C", bound=Compute)


class LayerPool:
    """The layers that a node was given: the first caller that takes one gets it, later ones get a copy."""

    def __init__(self, layers: Mapping[int, nn.Module]) -> None:
        self._layers, self._gone = layers, set[int]()

    def take(self, numbers: Iterable[int]) -> dict[int, nn.Module]:
        """Some layers, with weights that no other caller has."""
        return {number: self._take(number) for number in numbers}

    def _take(self, number: int) -> nn.Module:
        if number in self._gone:
            return copy.deepcopy(self._layers[number])
        self._gone.add(number)
        return self._layers[number]


def compute_for(
    kind: type[C],
    setup: Setup,
    phase: Phase,
    layers: Mapping[int, nn.Module],
    options: Options,
    *,
    own: Sequence[int] | None = None,
) -> C:
    """What a node computes with some layers in a phase, of one kind."""
    return kind(
        phase,
        setup.node,
        layers,
        options,
        setup.device,
        objective=setup.objective,
        own=own,
        learning=setup.learning,
        ties=setup.ties,
    )


def message_format(setup: Setup) -> MessageFormat:
    """The message format of samples between nodes."""
    dtype: torch.dtype = getattr(torch, setup.options.dtype)
    return MessageFormat(
        setup.shapes,
        setup.input_dtype,
        dtype,
        setup.objective.labels,
        setup.inputs,
        setup.outputs,
        setup.input_names,
        setup.lengths_vary,
    )


def initial_optimizer_state(setup: Setup) -> dict[str, Tensor]:
    """The optimizer state that a node starts from."""
    return {name: value for name, value in _saved(setup).items() if not is_of_exchange(name)}


def initial_exchange_state(setup: Setup) -> dict[str, Tensor]:
    """What was left out of the exchanges before, by all nodes."""
    return {name: value for name, value in _saved(setup).items() if is_of_exchange(name)}


def _saved(setup: Setup) -> dict[str, Tensor]:
    return from_bytes(setup.optimizer) if setup.optimizer else {}


def state_dicts(compute: Compute, layers: Iterable[int]) -> StateDicts:
    """The state of some layers, as ``WorkerSide.state`` returns it."""
    weights: dict[str, Tensor] = {}
    for number in layers:
        weights |= {name: value.cpu().contiguous() for name, value in compute.layers[number].state_dict().items()}
    kept = compute.optimizers.state()
    optimizer = {key: value.cpu().contiguous() for key, value in kept.items() if key.rpartition("/")[0] in weights}
    return weights, optimizer
