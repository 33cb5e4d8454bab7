"""A node's side of a hand-over: it sends layers, or receives and holds them until they are requested.

A message holds the weights and buffers of its layers, then their optimizer state, sorted by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from palmette.runtime.program import Program, ProgramOperation, numbers_of
from palmette.runtime.worker.deliveries import NO_DELIVERIES
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.messages import load_into, pack, packed_bytes, unpack
from palmette.runtime.worker.setup import Setup, StateDicts
from palmette.runtime.worker.state import initial_optimizer_state


class RelayWorkerSide:
    """Sends and receives layers; trains nothing."""

    masks = None

    def __init__(self, setup: Setup) -> None:
        self._held = HeldLayers(setup.layers, initial_optimizer_state(setup))

    def actions(self, number: int, program: Program) -> Actions:
        """Send and receive layers."""
        return self._held

    def state(self, layers: Sequence[int], after: int | None = None) -> StateDicts:
        """The current state."""
        return self._held.weights(layers), self._held.optimizer(layers)

    def last_states(self, _finished: int) -> dict[int, StateDicts]:
        """None: the last checkpoint counts."""
        return {}


class HeldLayers:
    """The layers that a node holds, and their optimizer state."""

    deliveries = NO_DELIVERIES

    def __init__(self, layers: Mapping[int, nn.Module], optimizer: Mapping[str, Tensor]) -> None:
        self._layers, self._optimizer = layers, optimizer

    def weights(self, layers: Sequence[int]) -> dict[str, Tensor]:
        """Weights and buffers by name."""
        return {name: value for n in layers for name, value in self._layers[n].state_dict().items()}

    def optimizer(self, layers: Sequence[int]) -> dict[str, Tensor]:
        """The optimizer state of layers."""
        own = self.weights(layers)
        return {key: value for key, value in sorted(self._optimizer.items()) if key.rpartition("/")[0] in own}

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> Any:
        """Never called: the program of a hand-over has only sends and receives."""
        raise AssertionError(f"a hand-over has only sends and receives, not {operation.op}")

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """The layers to send."""
        return pack(self._tensors(operation))

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of the layers to receive."""
        return packed_bytes(self._tensors(operation))

    def arrived(self, operation: ProgramOperation, message: Tensor, iteration: int) -> None:
        """Store the received layers."""
        tensors = self._tensors(operation)
        load_into(tensors, unpack(message, tensors))

    def close(self) -> None:
        """Nothing to abort."""

    def _tensors(self, operation: ProgramOperation) -> list[Tensor]:
        numbers = numbers_of(operation.layers)
        return [*self.weights(numbers).values(), *self.optimizer(numbers).values()]


def moved_layers(program: Program) -> list[int]:
    """The layers that a node sends or receives."""
    return sorted({number for operation in program.operations for number in numbers_of(operation.layers)})
