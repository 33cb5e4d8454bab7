"""``step`` on a node: gradients of replicated layers are averaged every iteration.

Replicas on one node share their weights. Every root has divided its loss by the batch of the whole phase, so that the
average of replicas is the sum of their gradients: on each node in the plan's order, then over the nodes, likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from palmette.cost.steps import Kind
from palmette.runtime.program import Operation, Program
from palmette.runtime.sync.base import Given, given_state, optimizer_of, wire_of
from palmette.runtime.worker.actions import Agreement, TrainingActions
from palmette.runtime.worker.compute import Compute, in_sum, trained, trained_layers
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.messages import pack
from palmette.runtime.worker.rollback import Keepsake

if TYPE_CHECKING:
    from palmette.runtime.worker.worker import Setup

ByLayer = dict[int, Tensor]
"""A layer's gradients, those of all its weights in one flat tensor."""


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
    """A node's gradients, added up, go to where the replicas meet, and their average comes back before the update."""

    def __init__(self, program: Program, compute: Compute) -> None:
        self._compute = compute
        self._by_number = {(operation.number, operation.op): operation for operation in program.operations}

    def call(self, operation: Operation, values: Values) -> Any:
        """Average gradients, or update with averages."""
        if operation.what is Kind.AVERAGE:
            return self._average(operation, values)
        averages = self._averages(operation, values)
        own = [n for n in trained_layers(self._compute.layers, operation.layers) if n not in averages]
        gradients = averages | {number: self._compute.added(number) for number in own}
        self._compute.take_added(operation.instance, gradients)
        self._compute.update(operation.instance)
        return None

    def _average(self, operation: Operation, values: Values) -> ByLayer:
        """The sum of what the nodes have added up, in the order in which the plan lists them."""
        numbers = trained_layers(self._compute.layers, operation.layers)
        found: dict[str, ByLayer] = {}
        for need in operation.after:
            pushed = self._by_number.get((need, "receive"))
            if pushed is not None and pushed.channel is not None:
                found[pushed.channel.sender] = values[need]
            elif "here" not in found:
                found["here"] = {number: self._compute.added(number) for number in numbers}
        return {number: in_sum([each[number] for each in found.values()]) for number in numbers}

    def _averages(self, operation: Operation, values: Values) -> ByLayer:
        """The averages that an update or a pull comes after, of its own layers."""
        known: ByLayer = {}
        for need in operation.after:
            average, pulled = self._by_number.get((need, "average")), self._by_number.get((need, "receive"))
            if average is not None or (pulled is not None and pulled.what is Kind.PULL):
                known |= values[need]
        numbers = trained_layers(self._compute.layers, operation.layers)
        return {number: known[number] for number in numbers if number in known}

    def message(self, operation: Operation, values: Values, iteration: int) -> Tensor:
        """Gradients on their way to the average, or averages on their way back."""
        if operation.what is Kind.PULL:
            return pack(self._averages(operation, values).values())
        return pack(self._compute.added(n) for n in trained_layers(self._compute.layers, operation.layers))

    def message_bytes(self, operation: Operation) -> int:
        """The bytes of the gradients of an operation's layers."""
        return sum(self._layer_sizes(operation)) * self._compute.dtype.itemsize

    def arrived(self, operation: Operation, message: Tensor) -> ByLayer:
        """Gradients by layer."""
        numbers = trained_layers(self._compute.layers, operation.layers)
        parts = torch.split(message.view(self._compute.dtype), self._layer_sizes(operation))
        return dict(zip(numbers, parts, strict=True))

    def _layer_sizes(self, operation: Operation) -> list[int]:
        layers = self._compute.layers
        numbers = trained_layers(layers, operation.layers)
        return [sum(weight.numel() for weight in trained(layers[number]).values()) for number in numbers]
