"""Sizes and FLOPs of a network's layers, a sample.

Samples go through each layer under a mode that sees every operation: what an operation writes into memory of its
own is an intermediate output, which counts as kept until backward (a view, or work in place, adds nothing). This
is done with two samples and with three, and the difference is exactly one sample's: what does not grow with the
batch, such as the statistics of batch norm, drops out.
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

from palmette.measure.contexts import Progress, batch, blamed, in_training
from palmette.spec.profile import Layer
from palmette.zoo.batch_norms import BatchNormRecorder
from palmette.zoo.models import Network

# Not one sample: batch norm refuses to train on a single value a channel.
FEWER, MORE = 2, 3


@dataclass(frozen=True)
class Census:
    """What some samples need in one layer."""

    flops: int
    kept_bytes: int
    output_bytes: int
    batch_norm_channels: tuple[int, ...]


def layer_sizes(network: Network, progress: Progress) -> tuple[Layer, ...]:
    """Bytes of weights, of one sample's output and intermediate outputs, and one sample's FLOPs, of each layer.

    Raises:
        InputError: the network cannot be trained on what it says it takes.
    """
    with in_training(network):
        fewer, more = (list(_censuses(network, samples, progress)) for samples in (FEWER, MORE))
    return tuple(
        Layer(
            name=layer.name,
            parameter_bytes=sum(weight.nbytes for weight in layer.module.parameters()),
            output_bytes=many.output_bytes - few.output_bytes,
            flops=max(0, many.flops - few.flops),
            activation_bytes=max(0, many.kept_bytes - few.kept_bytes),
            batch_norm_channels=many.batch_norm_channels,
        )
        for layer, few, many in zip(network.layers, fewer, more, strict=True)
    )


def batch_norm_channels(network: Network) -> list[tuple[int, ...]]:
    """The channels of the batch norms of each layer, in the order in which they run."""
    found = []
    with in_training(network), torch.no_grad():
        value = batch(network, FEWER)
        if value.is_floating_point():  # a run may have turned the weights into other numbers
            value = value.to(next((w.dtype for each in network.layers for w in each.module.parameters()), value.dtype))
        for layer in network.layers:
            with blamed(network, layer.name, FEWER), BatchNormRecorder() as norms:
                value = layer.module(value)
            found.append(tuple(norms.channels))
    return found


def input_bytes(network: Network) -> int:
    """Bytes of one sample on its way to the first layer."""
    return prod(network.input_shape) * network.dtype.itemsize


def _censuses(network: Network, samples: int, progress: Progress) -> Iterator[Census]:
    value = batch(network, samples)
    for place, layer in enumerate(network.layers):
        progress(layer.name, 0.0)
        if place:
            value = value.detach().requires_grad_()
        with blamed(network, layer.name, samples):
            census, value = _census(layer.module, value)
        yield census


def _census(module: nn.Module, value: Tensor) -> tuple[Census, Tensor]:
    memory = NewMemory([value, *module.parameters(), *module.buffers()])
    with memory, FlopCounterMode(display=False) as counter, BatchNormRecorder() as norms:
        output: Tensor = module(value)
    output_bytes = output.numel() * output.element_size()
    return Census(counter.get_total_flops(), memory.total_bytes, output_bytes, tuple(norms.channels)), output


class NewMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the bytes of what operations write into memory of their own."""

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
        """Run the operation and look at what it returns."""
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        reference = _reference(storage)
        if reference not in self._seen:
            self._seen.add(reference)
            self.total_bytes += storage.nbytes()


def _reference(storage: torch.UntypedStorage) -> StorageWeakRef:
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]
