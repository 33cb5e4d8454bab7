"""What a worker is given when it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from palmette.runtime.data.base import Samples, Source
from palmette.runtime.options import Options
from palmette.runtime.program import Program, numbers_of
from palmette.runtime.transports.base import Place
from palmette.runtime.worker.executor import Actions

StateDicts = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Weights and buffers, and what the optimizer keeps for them, by their names."""


class WorkerSide(Protocol):
    """A worker's side of how replicas agree: whose weights it holds, and what its programs do with them."""

    def actions(self, number: int, program: Program) -> Actions:
        """What the operations of a program do."""
        ...

    def state(self, layers: Sequence[int], after: int | None = None) -> StateDicts:
        """Weights and buffers of these layers, and what the optimizer keeps for them, by the weights' names.

        Under ``step``, ``after`` asks for them as they were after an iteration that all have done.
        """
        ...


@dataclass(frozen=True)
class Setup:
    """All that a worker is told when it starts.

    ``side`` makes the worker's side of how replicas agree. ``shapes`` are those of one sample: of the input, then of
    each layer's output. There is a program for each part of the phase (see ``phase_programs``), None for those in which
    the node has no part. A node that ``keeps`` can go back to the iteration before, should another be lost. ``source``
    is None where no samples are taken.
    """

    node: str
    place: Place
    programs: Sequence[Program | None]
    layers: Mapping[int, nn.Module] = field(repr=False)
    shapes: Sequence[tuple[int, ...]]
    input_dtype: torch.dtype
    options: Options
    side: Callable[[Setup], WorkerSide]
    source: Source | None = None
    cpu_limit: float = 1.0
    device: str = "cpu"
    keeps: bool = False
    optimizer: bytes = field(default=b"", repr=False)

    def samples(self, program: Program) -> Samples:
        """The samples of the sources in a program."""
        assert self.source is not None, "who trains has a source of samples"
        return self.source.samples(program)


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with memory of their own, as the safetensors format wants them."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def held_layers(program: Program) -> list[int]:
    """The layers that a node needs for a program: those of its instances, and those it averages or updates."""
    held = [program.phase.instances[k].layers for k in program.own]
    held += [run for each in program.operations if each.op in ("average", "update") for run in each.layers]
    return sorted(set(numbers_of(held)))
