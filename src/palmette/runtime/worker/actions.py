"""What the operations of an iteration do: connects a program with what a node computes.

Data, forward, output, gradient and backward are the same for every sync; push, average, pull and update are defined by
an ``SyncActions``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_never

import torch
from torch import Tensor

from palmette.compress.codec import decode, encode, encoded_bytes
from palmette.cost.steps import Kind
from palmette.runtime.data.base import SampleReader
from palmette.runtime.data.labels import Labels, refuse_unknown_labels
from palmette.runtime.program import Program, ProgramOperation, feeds, samples_by_instance
from palmette.runtime.worker.batch_norm import SUMS
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.partial_calls import PartialCalls

_LABEL = torch.int64


class InstanceInput(NamedTuple):
    """The input from a source or instance to the next instance: values, and the labels that are sent with them."""

    values: Tensor
    labels: Tensor


class BackwardResult(NamedTuple):
    """The result of a backward pass: the gradient of the input, if any, and the loss of a root."""

    gradient: Tensor | None
    loss: float


@dataclass(frozen=True)
class MessageFormat:
    """The message format of samples: the shape of one sample, at the input and after each layer, and the dtypes."""

    shapes: Sequence[tuple[int, ...]]
    input_dtype: torch.dtype
    dtype: torch.dtype

    @property
    def raw_dtype(self) -> torch.dtype:
        """The dtype of inputs: the run's if they are floating-point, since a user's data may have another."""
        return self.dtype if self.input_dtype.is_floating_point else self.input_dtype


class SyncActions:
    """What push, average, pull and update do under a sync; not every sync needs all of them."""

    def call(self, operation: ProgramOperation, values: Values) -> Any:
        """Execute an average or an update."""
        raise NotImplementedError

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """The bytes that a push or a pull carries."""
        raise NotImplementedError

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size of a push or a pull in bytes."""
        raise NotImplementedError

    def arrived(self, operation: ProgramOperation, message: Tensor) -> Any:
        """Decode a received push or pull."""
        raise NotImplementedError


class TrainingActions:
    """What a node's operations do in the iterations of a tree."""

    def __init__(
        self,
        program: Program,
        computes: Mapping[int, Compute],
        samples: SampleReader,
        wire: MessageFormat,
        sync_actions: SyncActions,
    ) -> None:
        self._computes, self._samples, self._wire, self._sync_actions = computes, samples, wire, sync_actions
        self._phase = program.phase
        self._feeds = feeds(self._phase)
        self._many = samples_by_instance(self._phase)
        self._labels = Labels(self._phase)
        self._found = {_where(operation): operation.number for operation in program.operations}
        self._segments = PartialCalls(computes)
        self._index = {instance.id: k for k, instance in enumerate(self._phase.instances)}
        for number, source in enumerate(self._phase.sources):
            if source.node == program.node:
                samples.open(number)

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> Any:
        """Execute a forward, backward, average or update."""
        k = operation.instance
        match operation.what:
            case Kind.FORWARD:
                return self._segments.call(operation, values, lambda: self._forward(k, values, iteration))
            case Kind.BACKWARD:
                return self._segments.call(operation, values, lambda: self._backward(k, values))
            case Kind.COMBINE:
                return self._segments.combined(operation, values)
            case Kind.AVERAGE | Kind.UPDATE:
                return self._sync_actions.call(operation, values)
            case Kind.DATA | Kind.OUTPUT | Kind.GRADIENT | Kind.STATISTICS | Kind.TOTALS | Kind.PUSH | Kind.PULL:
                raise AssertionError(f"{operation.what.value} is a transfer, not a call")
            case unknown:
                assert_never(unknown)

    def close(self) -> None:
        """Abort what is in progress."""
        self._segments.close()

    def _forward(self, k: int, values: Values, iteration: int) -> InstanceInput:
        fed = [self._fed_by_source(source, values, iteration) for source in self._feeds[k].sources]
        fed += [self._fed_by_instance(child, values) for child in self._feeds[k].instances]
        labels = torch.cat([each.labels for each in fed])
        if self._phase.instances[k].into is None:
            labels = self._labels.at_root(k, iteration, labels)
        return InstanceInput(self._computes[k].forward(k, [each.values for each in fed], [labels], iteration), labels)

    def _backward(self, k: int, values: Values) -> BackwardResult:
        return BackwardResult(*self._computes[k].backward(k, self._gradient(k, values)))

    def _fed_by_source(self, source: int, values: Values, iteration: int) -> InstanceInput:
        number = self._found.get((Kind.DATA, "receive", source))
        if number is None:
            return self._take(source, iteration)
        given: InstanceInput = values[number]
        return given

    def _take(self, source: int, iteration: int) -> InstanceInput:
        inputs, labels = self._samples.take(source, iteration)
        refuse_unknown_labels(labels, self._wire.shapes[-1], self._phase.sources[source].node)
        return InstanceInput(inputs.to(self._wire.raw_dtype), self._labels.leaving(source, iteration, labels))

    def _fed_by_instance(self, child: int, values: Values) -> InstanceInput:
        number = self._found.get((Kind.OUTPUT, "receive", child))
        given: InstanceInput = values[self._found[Kind.FORWARD, "forward", child] if number is None else number]
        return given

    def _gradient(self, k: int, values: Values) -> Tensor | None:
        """The gradient of an instance's output; None for a root."""
        number = self._found.get((Kind.GRADIENT, "receive", k))
        if number is None:
            return None if self._phase.instances[k].into is None else self._part_for(k, values)
        given: Tensor = values[number]
        return given

    def _part_for(self, child: int, values: Values) -> Tensor:
        """The part of the gradient of the next instance's input that belongs to the output of ``child``."""
        into = self._phase.instances[child].into
        assert into is not None
        parent = self._index[into]
        whole: Tensor = values[self._found[Kind.BACKWARD, "backward", parent]].gradient
        fed = [*(self._phase.sources[s].samples for s in self._feeds[parent].sources)]
        fed += [self._many[other] for other in self._feeds[parent].instances]
        place = len(self._feeds[parent].sources) + self._feeds[parent].instances.index(child)
        return torch.split(whole, fed)[place]

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """The bytes that a send carries."""
        k = operation.instance
        match operation.what:
            case Kind.DATA:
                taken = self._take(_source(operation), iteration)
                return _packed(_raw(taken.values), taken.labels)
            case Kind.OUTPUT:
                fed = values[self._found[Kind.FORWARD, "forward", k]]
                return _packed(encode(fed.values.cpu(), self._phase.instances[k].codec), fed.labels)
            case Kind.GRADIENT:
                return encode(self._part_for(k, values).cpu(), self._phase.instances[k].codec)
            case Kind.STATISTICS | Kind.TOTALS:
                return self._segments.message(operation, values)
            case Kind.PUSH | Kind.PULL:
                return self._sync_actions.message(operation, values, iteration)
            case Kind.FORWARD | Kind.BACKWARD | Kind.COMBINE | Kind.AVERAGE | Kind.UPDATE:
                raise AssertionError(f"{operation.what.value} is a call, not a transfer")
            case unknown:
                assert_never(unknown)

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of the message that a receive waits for."""
        k, label = operation.instance, _LABEL.itemsize
        match operation.what:
            case Kind.DATA:
                size = encoded_bytes(self._input_shape(operation), self._wire.raw_dtype, "none")
                return size + self._labels.many_from(_source(operation)) * label
            case Kind.OUTPUT:
                size = encoded_bytes(self._shape(k), self._wire.dtype, self._phase.instances[k].codec)
                return size + self._labels.many(k) * label
            case Kind.GRADIENT:
                return encoded_bytes(self._shape(k), self._wire.dtype, self._phase.instances[k].codec)
            case Kind.STATISTICS | Kind.TOTALS:
                return self._segments.message_bytes(operation)
            case Kind.PUSH | Kind.PULL:
                return self._sync_actions.message_bytes(operation)
            case Kind.FORWARD | Kind.BACKWARD | Kind.COMBINE | Kind.AVERAGE | Kind.UPDATE:
                raise AssertionError(f"{operation.what.value} is a call, not a transfer")
            case unknown:
                assert_never(unknown)

    def arrived(self, operation: ProgramOperation, message: Tensor) -> Any:
        """Decode a received message."""
        k = operation.instance
        match operation.what:
            case Kind.DATA:
                shape = self._input_shape(operation)
                body, labels = _unpacked(message, self._labels.many_from(_source(operation)))
                return InstanceInput(decode(body, shape, self._wire.raw_dtype, "none"), labels)
            case Kind.OUTPUT:
                body, labels = _unpacked(message, self._labels.many(k))
                return InstanceInput(
                    decode(body, self._shape(k), self._wire.dtype, self._phase.instances[k].codec), labels
                )
            case Kind.GRADIENT:
                return decode(message, self._shape(k), self._wire.dtype, self._phase.instances[k].codec)
            case Kind.STATISTICS | Kind.TOTALS:
                return message.view(SUMS)
            case Kind.PUSH | Kind.PULL:
                return self._sync_actions.arrived(operation, message)
            case Kind.FORWARD | Kind.BACKWARD | Kind.COMBINE | Kind.AVERAGE | Kind.UPDATE:
                raise AssertionError(f"{operation.what.value} is a call, not a transfer")
            case unknown:
                assert_never(unknown)

    def _input_shape(self, operation: ProgramOperation) -> tuple[int, ...]:
        return (self._phase.sources[_source(operation)].samples, *self._wire.shapes[0])

    def _shape(self, k: int) -> tuple[int, ...]:
        return (self._many[k], *self._wire.shapes[self._phase.instances[k].layers[1]])


def _source(operation: ProgramOperation) -> int:
    """The source of a transfer of samples."""
    assert operation.source is not None
    return operation.source


def _where(operation: ProgramOperation) -> tuple[Kind, str, int]:
    """An operation's kind and op, with its source for data and its instance for everything else."""
    about = operation.source if operation.source is not None else operation.instance
    return operation.what, operation.op, about


def _raw(values: Tensor) -> Tensor:
    return encode(values, "none")


def _packed(body: Tensor, labels: Tensor) -> Tensor:
    return torch.cat((body, _raw(labels.to(_LABEL))))


def _unpacked(message: Tensor, many: int) -> tuple[Tensor, Tensor]:
    size = message.numel() - many * _LABEL.itemsize
    return message[:size], message[size:].clone().view(_LABEL)
