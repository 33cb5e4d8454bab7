"""What a worker is given when it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from palmette.runtime.data.base import SampleReader, SampleSource
from palmette.runtime.data.kept_samples import SampleStore
from palmette.runtime.options import Options, Precision
from palmette.runtime.program import Program, numbers_of
from palmette.runtime.transports.base import Endpoint
from palmette.runtime.worker.executor import Actions
from palmette.zoo.capture import TensorSpec, TiedWeight
from palmette.zoo.models import Network
from palmette.zoo.recipes.objective import TrainingObjective

if TYPE_CHECKING:
    from palmette.runtime.worker.pairwise_masks import PairwiseMasks

StateDicts = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Weights and buffers, and their optimizer state, by name."""


@dataclass(frozen=True)
class OwnedData:
    """The data that a node owns, by its name there, and what makes a copy of the whole network to evaluate on it."""

    network: Callable[[], Network]
    data: str


class WorkerSide(Protocol):
    """A worker's side of a sync method: which weights it holds, and what its programs do with them."""

    @property
    def masks(self) -> PairwiseMasks | None:
        """Those that it shares with other nodes, where it masks its weights."""
        ...

    def actions(self, number: int, program: Program) -> Actions:
        """What the operations of a program do."""
        ...

    def state(self, layers: Sequence[int], after: int | None = None) -> StateDicts:
        """Weights and buffers of these layers, and their optimizer state, by name.

        Under ``step``, ``after`` asks for the state after an iteration that all workers have completed.
        """
        ...

    def last_states(self, finished: int) -> Mapping[int, StateDicts]:
        """What this node alone has to keep where the engine is gone, by the iteration that it is the state after.

        ``finished`` is the last iteration that this node has done. Empty where workers do not agree in every iteration.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class SetupNames:
    """The names by which a worker builds for itself what it is not sent, where no code travels.

    ``model`` is the network's, with its adapters, ``recipe`` that of the training, if it has one; ``pruning`` is the
    fraction of the network that was removed; ``side`` is the sync method's, or ``relay`` for a hand-over.
    """

    model: str
    recipe: str | None = None
    input_shape: tuple[int, ...] | None = None
    pruning: float = 0.0
    side: str = "step"


@dataclass(frozen=True)
class Setup:
    """All that a worker is given when it starts.

    ``side`` makes the worker's side of the sync method. ``shapes`` are those of one sample: of the input, then of each
    layer's output. There is one program for each part of the phase (see ``phase_programs``), None for parts that the
    node has no operations in. A node that ``keeps`` can roll back to the previous iteration if another node is lost.
    ``source`` is None where no samples are used; ``store`` is where samples of other nodes are kept. ``inputs`` and
    ``outputs`` describe all tensors that go into the network, and that each layer returns, where they are several;
    ``ties`` are weights that several layers use. With ``lengths_vary``, shapes are those of the longest samples, and
    messages say their own. ``threads`` is None for as many as the machine has cores.
    One that ``rests`` waits after each call until its share of the CPU covers it.
    ``profiled_precision`` is that of the profile's times. ``names`` are for engines that send no code.
    ``kept_state`` is the folder for the last states where the engine is gone, None where they are not kept.
    ``evaluation`` is for a node that owns data to evaluate on.
    """

    node: str
    endpoint: Endpoint
    programs: Sequence[Program | None]
    layers: Mapping[int, nn.Module] = field(repr=False)
    shapes: Sequence[tuple[int, ...]]
    input_dtype: torch.dtype
    options: Options
    side: Callable[[Setup], WorkerSide]
    objective: TrainingObjective
    source: SampleSource | None = None
    cpu_limit: float = 1.0
    rests: bool = False
    device: str = "cpu"
    threads: int | None = 1
    profiled_precision: Precision | None = None
    rollback: bool = False
    optimizer: bytes = field(default=b"", repr=False)
    store: SampleStore | None = None
    inputs: Sequence[TensorSpec] = ()
    input_names: Sequence[str] = ()
    lengths_vary: bool = False
    outputs: Sequence[Sequence[TensorSpec]] = ()
    ties: Sequence[TiedWeight] = ()
    names: SetupNames | None = None
    kept_state: Path | None = None
    evaluation: OwnedData | None = field(default=None, repr=False)

    @property
    def learning(self) -> dict[int, list[bool]]:
        """By layer, whether a gradient flows back through each of the tensors that it returns."""
        return {number: [spec.gradient for spec in specs] for number, specs in enumerate(self.outputs, 1)}

    def samples(self, program: Program) -> SampleReader:
        """The samples of the sources in a program."""
        assert self.source is not None, "a worker that trains needs a source of samples"
        return self.source.samples(program)


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of tensors that share no memory and are contiguous, as the safetensors format requires."""
    return {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}


def held_layers(program: Program) -> list[int]:
    """The layers that a node needs for a program: those of its instances, and those it averages or updates.

    Numbers after the last layer's are ties.
    """
    held = [program.phase.instances[k].layers for k in program.own]
    held += [run for each in program.operations if each.op in ("average", "update") for run in each.layers]
    return sorted(set(numbers_of(held)))
