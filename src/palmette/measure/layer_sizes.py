"""Sizes and FLOPs of a network's layers, per sample.

Samples go through each layer under a dispatch mode that sees every operation: what an operation writes into newly
allocated memory is an intermediate output, which counts as kept until backward (a view, or work in place, adds
nothing). This is done with two samples and with three, and the difference is exactly one sample's: what does not grow
with the batch, such as the statistics of batch norm, drops out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from palmette.measure.contexts import Progress, example_batch, name_failing_layer, training_mode
from palmette.spec.profile import Layer
from palmette.zoo.batch_norms import BatchNormRecorder
from palmette.zoo.models import Network

# Not one sample: batch norm refuses to train on a single value a channel.
FEWER, MORE = 2, 3


@dataclass(frozen=True)
class LayerUsage:
    """FLOPs and bytes of some samples in one layer."""

    flops: int
    kept_bytes: int
    output_bytes: int
    batch_norm_channels: tuple[int, ...]
    output_channels: int


def layer_sizes(network: Network, progress: Progress) -> tuple[Layer, ...]:
    """Bytes of weights, of one sample's output and intermediate outputs, and one sample's FLOPs, of each layer.

    Raises:
        InputError: the network fails in training on its own input shape.
    """
    with training_mode(network):
        fewer, more = (list(_layer_usages(network, samples, progress)) for samples in (FEWER, MORE))
    return tuple(
        Layer(
            name=layer.name,
            parameter_bytes=sum(weight.nbytes for weight in layer.module.parameters()),
            output_bytes=many.output_bytes - few.output_bytes,
            flops=max(0, many.flops - few.flops),
            activation_bytes=max(0, many.kept_bytes - few.kept_bytes),
            batch_norm_channels=many.batch_norm_channels,
            output_channels=many.output_channels,
        )
        for layer, few, many in zip(network.layers, fewer, more, strict=True)
    )


def batch_norm_channels(network: Network) -> list[tuple[int, ...]]:
    """The channels of the batch norms of each layer, in the order in which they run."""
    found = []
    with training_mode(network), torch.no_grad():
        value = example_batch(network, FEWER)
        if value.is_floating_point():  # a run may have turned the weights into other numbers
            value = value.to(next((w.dtype for each in network.layers for w in each.module.parameters()), value.dtype))
        for layer in network.layers:
            with name_failing_layer(network, layer.name, FEWER), BatchNormRecorder() as norms:
                value = layer.module(value)
            found.append(tuple(norms.channels))
    return found


def input_bytes(network: Network) -> int:
    """Bytes of one sample as input of the first layer."""
    return prod(network.input_shape) * network.dtype.itemsize


def _layer_usages(network: Network, samples: int, progress: Progress) -> Iterator[LayerUsage]:
    value = example_batch(network, samples)
    for place, layer in enumerate(network.layers):
        progress(layer.name, 0.0)
        if place:
            value = value.detach().requires_grad_()
        with name_failing_layer(network, layer.name, samples):
            usage, value = _layer_usage(layer.module, value)
        yield usage


def _layer_usage(module: nn.Module, value: Tensor) -> tuple[LayerUsage, Tensor]:
    memory = AllocationCounter([value, *module.parameters(), *module.buffers()])
    with memory, FlopCounterMode(display=False) as counter, BatchNormRecorder() as norms:
        output: Tensor = module(value)
    output_bytes = output.numel() * output.element_size()
    channels = output.shape[1] if output.dim() > 1 else 1
    return LayerUsage(
        counter.get_total_flops(), memory.total_bytes, output_bytes, tuple(norms.channels), channels
    ), output


class AllocationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the bytes that operations allocate for their outputs."""

    def __init__(self, known: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total_bytes = 0
        # Weak references: they free the memory, and keep its address from being taken for something new.
        self._seen = {_reference(tensor.untyped_storage()) for tensor in known}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation and count what it returns."""
        output = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return output

    def _count(self, storage: torch.UntypedStorage) -> None:
        reference = _reference(storage)
        if reference not in self._seen:
            self._seen.add(reference)
            self.total_bytes += storage.nbytes()


def _reference(storage: torch.UntypedStorage) -> StorageWeakRef:
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]
