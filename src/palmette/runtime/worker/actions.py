"""What the operations of an iteration do: connects a program with what a node computes.

Data, forward, output, gradient and backward are the same for every sync; push, average, pull and update are defined by
an ``SyncActions``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, assert_never

import torch
from torch import Tensor

from palmette.compress.coders.base import Coder
from palmette.cost.sizes import Run
from palmette.cost.steps import GRADIENT_CALLS, SAMPLES, Kind
from palmette.runtime.data.base import SampleReader
from palmette.runtime.data.kept_samples import SampleStore
from palmette.runtime.data.labels import Labels
from palmette.runtime.program import Program, ProgramOperation, feeds, samples_by_instance
from palmette.runtime.worker.batch_norm import SUMS
from palmette.runtime.worker.bundles import BundleFormat, divided
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.deliveries import (
    DeliveredBefore,
    Deliveries,
    OwnedSamples,
    PackedLabels,
    SampleReceiver,
    SampleSender,
    StoredBatch,
    UploadedSamples,
)
from palmette.runtime.worker.divisors import DivisorExchange
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.kept_outputs import KeptOutputs
from palmette.runtime.worker.partial_calls import PartialCalls
from palmette.spec.codec import returning_codec
from palmette.zoo.capture import TensorSpec, as_bundle
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.data.item_format import ItemFormat


class InstanceInput(NamedTuple):
    """The input from a source or instance to the next instance: values, and the labels that are sent with them."""

    values: Bundle
    labels: Tensor


class BackwardResult(NamedTuple):
    """The result of a backward pass: the gradient of the input, if any, and the loss of a root."""

    gradient: Bundle | None
    loss: float


@dataclass(frozen=True)
class MessageFormat:
    """The message format of samples: the shape of one sample, at the input and after each layer, and the dtypes.

    ``labels`` is the format of what the samples should become. ``inputs`` and ``outputs`` describe all tensors that go
    into the network, and that each layer returns; by default, one of those shapes. ``input_names`` are those of the
    inputs where samples have them by name. If their lengths ``vary``, messages say what shapes they have.
    """

    shapes: Sequence[tuple[int, ...]]
    input_dtype: torch.dtype
    dtype: torch.dtype
    labels: ItemFormat
    inputs: Sequence[TensorSpec] = ()
    outputs: Sequence[Sequence[TensorSpec]] = ()
    input_names: Sequence[str] = ()
    vary: bool = False

    def after(self, layer: int) -> BundleFormat:
        """The format of what a layer returns; layer 0 is the input."""
        if not layer:
            inputs = tuple(self.inputs) or (TensorSpec(self.shapes[0], self.input_dtype),)
            return BundleFormat(inputs, self.dtype, self.vary)
        known = self.outputs[layer - 1] if self.outputs else (TensorSpec(self.shapes[layer]),)
        return BundleFormat(tuple(known), self.dtype, self.vary)


def raw_dtype(input_dtype: torch.dtype, dtype: torch.dtype) -> torch.dtype:
    """The dtype of inputs: the run's if they are floating-point, since a user's data may have another."""
    return dtype if input_dtype.is_floating_point else input_dtype


class SyncActions(Protocol):
    """What push, average, pull and update do under a sync."""

    def call(self, operation: ProgramOperation, values: Values) -> Any:
        """Execute an average or an update."""

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """The bytes that a push or a pull carries."""

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size of a push or a pull in bytes."""

    def arrived(self, operation: ProgramOperation, message: Tensor) -> Any:
        """Decode a received push or pull."""


class TrainingActions:
    """What a node's operations do in the iterations of a tree."""

    def __init__(
        self,
        program: Program,
        computes: Mapping[int, Compute],
        samples: SampleReader,
        wire: MessageFormat,
        sync_actions: SyncActions,
        *,
        store: SampleStore | None = None,
    ) -> None:
        self._computes, self._samples, self._wire, self._sync_actions = computes, samples, wire, sync_actions
        self._phase = program.phase
        self._feeds = feeds(self._phase)
        self._many = samples_by_instance(self._phase)
        self._labels = Labels(self._phase)
        self._outputs = KeptOutputs(self._phase, samples, vary=wire.vary)
        self._found = {_where(operation): operation.number for operation in program.operations}
        self._segments = PartialCalls(computes)
        self._divisors = DivisorExchange(program, computes)
        self._index = {instance.id: k for k, instance in enumerate(self._phase.instances)}
        self._owned = {
            number: OwnedSamples(samples, number, self._labels, wire.labels, source.node)
            for number, source in enumerate(self._phase.sources)
            if source.node == program.node
        }
        self._sent = {
            operation.source
            for operation in program.operations
            if (operation.what, operation.op) == (Kind.DATA, "send")
        }
        self._before: dict[tuple[str, str], DeliveredBefore] = {}
        self.deliveries: Deliveries = {
            operation.number: self._delivery(operation, store)
            for operation in program.operations
            if operation.what in SAMPLES
        }
        for compute in computes.values():
            compute.order, compute.targets = samples.order, samples.targets

    def _delivery(self, operation: ProgramOperation, store: SampleStore | None) -> SampleSender | SampleReceiver:
        """This node's end of a transfer of samples."""
        if operation.what is Kind.UPLOAD:
            return self._upload(operation, store)
        number = _source(operation)
        source = self._phase.sources[number]
        travel = self._labels.travel(number)
        form = PackedLabels(self._wire.labels, travel, packed=travel or source.delivery == "once")
        before = self._delivered_before(number) if source.delivery == "once" else None
        if operation.op == "send":
            return SampleSender(self._owned[number], form, before)
        assert store is not None or before is None, "a worker that keeps samples has a place for them"
        kept = store.of(source.node) if store is not None and before is not None else None
        return SampleReceiver(self._samples, number, form, kept, before)

    def _upload(self, operation: ProgramOperation, store: SampleStore | None) -> SampleSender | SampleReceiver:
        """This node's end of a transfer of samples that a later phase needs, with their labels."""
        number, reader = _source(operation), UploadedSamples(self._samples)
        source, form = self._phase.sources[number], PackedLabels(self._wire.labels, travel=True, packed=True)
        before = DeliveredBefore(reader, [number])
        if operation.op == "send":
            return SampleSender(
                OwnedSamples(reader, number, self._labels, self._wire.labels, source.node), form, before
            )
        assert store is not None, "a worker that keeps samples has a place for them"
        return SampleReceiver(reader, number, form, store.of(source.node), before)

    def _delivered_before(self, number: int) -> DeliveredBefore:
        """What the node that a source feeds has of its owner's samples; the same for all sources of the two."""
        places = {instance.id: instance.node for instance in self._phase.instances}
        pairs = [(source.node, places[source.into]) for source in self._phase.sources]
        once = [source.delivery == "once" for source in self._phase.sources]
        if pairs[number] not in self._before:
            same = [k for k, pair in enumerate(pairs) if pair == pairs[number] and once[k]]
            self._before[pairs[number]] = DeliveredBefore(self._samples, same)
        return self._before[pairs[number]]

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> Any:
        """Execute a forward, backward, average or update."""
        k = operation.instance
        match operation.what:
            case Kind.FORWARD:
                return self._segments.call(
                    operation, values, lambda: self._forward(k, values, iteration, operation.layers)
                )
            case Kind.RECOMPUTE:
                return self._computes[k].recompute(k)
            case Kind.BACKWARD:
                return self._segments.call(operation, values, lambda: self._backward(k, values))
            case Kind.BACKWARD_INPUT | Kind.BACKWARD_WEIGHTS:
                return self._half(operation, values)
            case Kind.COMBINE:
                return self._segments.combined(operation, values)
            case Kind.DIVISOR:
                return self._divisors.total(operation, values)
            case Kind.AVERAGE | Kind.NORM | Kind.UPDATE:
                return self._sync_actions.call(operation, values)
            case Kind.DATA | Kind.UPLOAD | Kind.OUTPUT | Kind.GRADIENT | Kind.STATISTICS | Kind.TOTALS:
                raise AssertionError(f"{operation.what.value} is a transfer, not a call")
            case Kind.PUSH | Kind.PULL | Kind.SQUARES | Kind.TOTAL_NORM | Kind.COUNT | Kind.TOTAL_DIVISOR:
                raise AssertionError(f"{operation.what.value} is a transfer, not a call")
            case unknown:
                assert_never(unknown)

    def close(self) -> None:
        """Abort what is in progress."""
        self._segments.close()

    def _forward(self, k: int, values: Values, iteration: int, blocks: Sequence[Run]) -> InstanceInput:
        fed = [self._fed_by_source(source, values, iteration) for source in self._feeds[k].sources]
        fed += [self._fed_by_instance(child, values) for child in self._feeds[k].instances]
        labels = torch.cat([each.labels for each in fed])
        if self._phase.instances[k].into is None:
            for source in self._labels.staying(k):
                if source in self._sent:  # its samples have come back as outputs, its labels never left
                    self._owned[source].keep_labels(iteration)
            labels = self._labels.at_root(k, iteration, labels)
        entering = [each.values for each in fed]
        return InstanceInput(self._computes[k].forward(k, entering, [labels], iteration, blocks), labels)

    def _backward(self, k: int, values: Values) -> BackwardResult:
        gradient = self._gradient(k, values)
        divisor = self._divisors.known(values) if gradient is None else None
        return BackwardResult(*self._computes[k].backward(k, gradient, divisor))

    def _half(self, operation: ProgramOperation, values: Values) -> BackwardResult | None:
        """Execute half of a backward; there is no divisor to wait for where it falls into halves."""
        k, compute = operation.instance, self._computes[operation.instance]
        if operation.what is Kind.BACKWARD_WEIGHTS:
            compute.backward_weights(k)
            return None
        return BackwardResult(*compute.backward_input(k, self._gradient(k, values)))

    def _fed_by_source(self, source: int, values: Values, iteration: int) -> InstanceInput:
        number = self._found.get((Kind.DATA, "receive", source))
        stored = self._owned[source].batch(iteration) if number is None else self._received(number, values, iteration)
        inputs = as_bundle(self._samples.inputs(source, iteration, stored.samples), self._wire.input_names)
        return InstanceInput(self._wire.after(0).cast(inputs), stored.labels)

    def _received(self, number: int, values: Values, iteration: int) -> StoredBatch:
        """The samples that an operation has brought, and those that were kept."""
        receiver = self.deliveries[number]
        assert isinstance(receiver, SampleReceiver)
        return receiver.batch(iteration, values[number])

    def _fed_by_instance(self, child: int, values: Values) -> InstanceInput:
        number = self._found.get((Kind.OUTPUT, "receive", child))
        given: InstanceInput = values[self._found[Kind.FORWARD, "forward", child] if number is None else number]
        return given

    def _gradient(self, k: int, values: Values) -> Bundle | None:
        """The gradient of an instance's output; None for a root."""
        number = self._found.get((Kind.GRADIENT, "receive", k))
        if number is None:
            return None if self._phase.instances[k].into is None else self._part_for(k, values)
        given: Bundle = values[number]
        return given

    def _part_for(self, child: int, values: Values) -> Bundle:
        """The part of the gradient of the next instance's input that belongs to the output of ``child``."""
        into = self._phase.instances[child].into
        assert into is not None
        parent = self._index[into]
        whole: Bundle = values[self._gone_back(parent)].gradient
        fed = [*(self._phase.sources[s].samples for s in self._feeds[parent].sources)]
        fed += [self._many[other] for other in self._feeds[parent].instances]
        place = len(self._feeds[parent].sources) + self._feeds[parent].instances.index(child)
        return divided(whole, fed)[place]

    def _gone_back(self, k: int) -> int:
        """The call that ends with the gradient of an instance's input."""
        places = [(kind, "backward", k) for kind in GRADIENT_CALLS]
        return next(self._found[place] for place in places if place in self._found)

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """The bytes that a send carries."""
        k = operation.instance
        match operation.what:
            case Kind.OUTPUT:
                fed = values[self._found[Kind.FORWARD, "forward", k]]
                message = self._format(k).message(fed.values, self._outputs.coders(k, self._format(k), iteration))
                return torch.cat((message, fed.labels.reshape(-1)))
            case Kind.GRADIENT:
                part = self._part_for(k, values)
                return self._format(k).gradient.message(part, self._returning(k))
            case Kind.STATISTICS | Kind.TOTALS:
                return self._segments.message(operation, values)
            case Kind.COUNT | Kind.TOTAL_DIVISOR:
                return self._divisors.message(operation, values)
            case Kind.PUSH | Kind.PULL | Kind.SQUARES | Kind.TOTAL_NORM:
                return self._sync_actions.message(operation, values, iteration)
            case Kind.DATA | Kind.UPLOAD:
                raise AssertionError("samples travel by themselves, see deliveries")
            case Kind.COMBINE | Kind.AVERAGE | Kind.NORM | Kind.DIVISOR:
                raise AssertionError(f"{operation.what.value} combines, it is no transfer")
            case (Kind.FORWARD | Kind.RECOMPUTE | Kind.BACKWARD | Kind.UPDATE) | (
                Kind.BACKWARD_INPUT | Kind.BACKWARD_WEIGHTS
            ):
                raise AssertionError(f"{operation.what.value} is a call, not a transfer")
            case unknown:
                assert_never(unknown)

    def message_bytes(self, operation: ProgramOperation) -> int | None:
        """The size in bytes of the message that a receive waits for; None if it varies."""
        k = operation.instance
        match operation.what:
            case Kind.OUTPUT | Kind.GRADIENT if self._size_varies(operation):
                return None
            case Kind.OUTPUT:
                form = self._format(k)
                size = form.message_bytes(self._many[k], form.coders(self._phase.instances[k].codec))
                return size + self._labels.many(k) * self._wire.labels.row_bytes
            case Kind.GRADIENT:
                return self._format(k).gradient.message_bytes(self._many[k], self._returning(k))
            case Kind.STATISTICS | Kind.TOTALS:
                return self._segments.message_bytes(operation)
            case Kind.COUNT | Kind.TOTAL_DIVISOR:
                return self._divisors.message_bytes
            case Kind.PUSH | Kind.PULL | Kind.SQUARES | Kind.TOTAL_NORM:
                return self._sync_actions.message_bytes(operation)
            case Kind.DATA | Kind.UPLOAD:
                raise AssertionError("samples travel by themselves, see deliveries")
            case Kind.COMBINE | Kind.AVERAGE | Kind.NORM | Kind.DIVISOR:
                raise AssertionError(f"{operation.what.value} combines, it is no transfer")
            case (Kind.FORWARD | Kind.RECOMPUTE | Kind.BACKWARD | Kind.UPDATE) | (
                Kind.BACKWARD_INPUT | Kind.BACKWARD_WEIGHTS
            ):
                raise AssertionError(f"{operation.what.value} is a call, not a transfer")
            case unknown:
                assert_never(unknown)

    def _size_varies(self, operation: ProgramOperation) -> bool:
        """Whether an output or gradient takes more bytes in some iterations than in others."""
        return self._wire.vary or (operation.what is Kind.OUTPUT and self._outputs.keeps(operation.instance))

    def arrived(self, operation: ProgramOperation, message: Tensor, iteration: int) -> Any:
        """Decode a received message."""
        k = operation.instance
        match operation.what:
            case Kind.OUTPUT:
                body, labels = self._unpacked(message, k)
                coders = self._outputs.coders(k, self._format(k), iteration)
                return InstanceInput(self._format(k).unpacked(body, self._many[k], coders), labels)
            case Kind.GRADIENT:
                return self._format(k).gradient.unpacked(message, self._many[k], self._returning(k))
            case Kind.STATISTICS | Kind.TOTALS:
                return message.view(SUMS)
            case Kind.COUNT | Kind.TOTAL_DIVISOR:
                return self._divisors.arrived(message)
            case Kind.PUSH | Kind.PULL | Kind.SQUARES | Kind.TOTAL_NORM:
                return self._sync_actions.arrived(operation, message)
            case Kind.DATA | Kind.UPLOAD:
                raise AssertionError("samples travel by themselves, see deliveries")
            case Kind.COMBINE | Kind.AVERAGE | Kind.NORM | Kind.DIVISOR:
                raise AssertionError(f"{operation.what.value} combines, it is no transfer")
            case (Kind.FORWARD | Kind.RECOMPUTE | Kind.BACKWARD | Kind.UPDATE) | (
                Kind.BACKWARD_INPUT | Kind.BACKWARD_WEIGHTS
            ):
                raise AssertionError(f"{operation.what.value} is a call, not a transfer")
            case unknown:
                assert_never(unknown)

    def _unpacked(self, message: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The output of an instance in a message, and the labels beside it."""
        many, each = self._labels.many(k), self._wire.labels.row_bytes
        size = message.numel() - many * each
        return message[:size], message[size:].view(many, each)

    def _returning(self, k: int) -> list[Coder]:
        """How the gradient of an instance's output returns."""
        return self._format(k).gradient.coders(returning_codec(self._phase.instances[k].codec))

    def _format(self, k: int) -> BundleFormat:
        """The format of an instance's output."""
        return self._wire.after(self._phase.instances[k].layers[1])


def _source(operation: ProgramOperation) -> int:
    """The source of a transfer of samples."""
    assert operation.source is not None
    return operation.source


def _where(operation: ProgramOperation) -> tuple[Kind, str, int]:
    """An operation's kind and op, with its source for data and its instance for everything else."""
    about = operation.source if operation.source is not None else operation.instance
    return operation.what, operation.op, about
