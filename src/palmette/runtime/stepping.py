"""``step`` on a node: gradients of replicated layers are averaged every iteration.

Replicas on one node share their weights. Every root has divided its loss by the batch of the whole phase, so that the
average of replicas is the sum of their gradients, taken in the plan's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from palmette.cost.operations import Kind
from palmette.runtime.actions import Agreement, TrainingActions
from palmette.runtime.compute import Compute, trained, trained_layers
from palmette.runtime.execute import Actions, Values
from palmette.runtime.keepsake import Keepsake
from palmette.runtime.packing import pack
from palmette.runtime.program import Operation, Program
from palmette.runtime.role import Given, given_state, optimizer_of, wire_of

if TYPE_CHECKING:
    from palmette.runtime.worker import Setup


class StepRole:
    """One set of weights, and one program."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._compute: Compute
        self._keepsake: Keepsake | None = None

    def actions(self, number: int, program: Program) -> Actions:
        """Train, and average gradients with the others."""
        setup = self._setup
        self._compute = Compute(program.phase, setup.node, setup.layers, setup.options, setup.device)
        self._compute.load_optimizer_state(optimizer_of(setup))
        if setup.keeps:
            self._keepsake = Keepsake(lambda: given_state(self._compute, setup.layers))
            self._compute.begin = self._keepsake.begin
        computes = dict.fromkeys(program.own, self._compute)
        averaging = GradientAveraging(program, self._compute)
        return TrainingActions(program, computes, setup.source.samples(program), wire_of(setup), averaging)

    def state(self, layers: Sequence[int], after: int | None = None) -> Given:
        """The node's only weights, as they are or were."""
        if after is None or self._keepsake is None:
            return given_state(self._compute, layers)
        weights, optimizer = self._keepsake.after(after)
        own = {name for number in layers for name in self._compute.layers[number].state_dict()}
        return (
            {name: value for name, value in weights.items() if name in own},
            {key: value for key, value in optimizer.items() if key.rpartition("/")[0] in own},
        )


class GradientAveraging(Agreement):
    """Gradients go to where the replicas meet, and their average comes back before the update."""

    def __init__(self, program: Program, compute: Compute) -> None:
        self._compute = compute
        self._by_number = {(operation.number, operation.op): operation for operation in program.operations}

    def call(self, operation: Operation, values: Values) -> Any:
        """Average gradients, or update with averages."""
        if operation.what is Kind.AVERAGE:
            return self._average(operation, values)
        self._take_averages(operation, values)
        self._compute.update(operation.instance)
        return None

    def _average(self, operation: Operation, values: Values) -> list[Tensor]:
        total: list[Tensor] = []
        for need in operation.after:
            parts = self._contribution(need, operation, values)
            total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
        return total

    def _contribution(self, need: int, operation: Operation, values: Values) -> list[Tensor]:
        pushed = self._by_number.get((need, "receive"))
        if pushed is None:
            backward = self._by_number[need, "backward"]
            return self._compute.gradients(backward.instance, operation.layers)
        known: dict[int, Tensor] = values[need]
        return [known[number] for number in trained_layers(self._compute.layers, operation.layers)]

    def _take_averages(self, operation: Operation, values: Values) -> None:
        for need in operation.after:
            average = self._by_number.get((need, "average"))
            if average is not None:
                self._compute.set_gradients(operation.instance, average.layers, values[need])
            pulled = self._by_number.get((need, "receive"))
            if pulled is not None and pulled.what is Kind.PULL:
                known: dict[int, Tensor] = values[need]
                numbers = trained_layers(self._compute.layers, pulled.layers)
                self._compute.set_gradients(operation.instance, pulled.layers, [known[n] for n in numbers])

    def message(self, operation: Operation, values: Values, iteration: int) -> Tensor:
        """Gradients on their way to the average, or averages on their way back."""
        if operation.what is Kind.PUSH:
            return pack(self._compute.gradients(operation.instance, operation.layers))
        known: dict[int, Tensor] = {}
        for need in operation.after:
            average = self._by_number[need, "average"]
            known |= zip(trained_layers(self._compute.layers, average.layers), values[need], strict=True)
        return pack(known[number] for number in trained_layers(self._compute.layers, operation.layers))

    def message_bytes(self, operation: Operation) -> int:
        """The bytes of the gradients of an operation's layers."""
        return sum(self._layer_sizes(operation)) * self._compute.dtype.itemsize

    def arrived(self, operation: Operation, message: Tensor) -> dict[int, Tensor]:
        """Gradients by layer."""
        numbers = trained_layers(self._compute.layers, operation.layers)
        parts = torch.split(message.view(self._compute.dtype), self._layer_sizes(operation))
        return dict(zip(numbers, parts, strict=True))

    def _layer_sizes(self, operation: Operation) -> list[int]:
        layers = self._compute.layers
        numbers = trained_layers(layers, operation.layers)
        return [sum(weight.numel() for weight in trained(layers[number]).values()) for number in numbers]
