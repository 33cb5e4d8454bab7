"""Sizes and FLOPs of a network's layers, per sample.

Samples go through each layer under a dispatch mode that sees every operation: what an operation writes into newly
allocated memory is an intermediate output, which counts as kept until backward (a view, or work in place, adds
nothing). This is done with two samples and with three, and the difference is exactly one sample's: what does not grow
with the batch, such as the statistics of batch norm, drops out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from palmette.measure.compute_settings import ComputeSettings
from palmette.measure.contexts import Progress, name_failing_layer, training_mode
from palmette.runtime.options import Precision
from palmette.spec.profile import Layer, Tie
from palmette.zoo.batch_norms import BatchNormRecorder
from palmette.zoo.capture import NetworkLayer, TensorSpec, TiedWeight, as_bundle, tied_weights
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.models import Network

# Not one sample: batch norm refuses to train on a single value a channel.
FEWER, MORE = 2, 3


@dataclass(frozen=True)
class LayerUsage:
    """FLOPs and bytes of some samples in one layer."""

    flops: int
    kept_bytes: int
    output_bytes: int
    gradient_bytes: int
    batch_norm_channels: tuple[int, ...]
    output_channels: int


def layer_sizes(network: Network, progress: Progress, precision: Precision | None = None) -> tuple[Layer, ...]:
    """Bytes of weights, of one sample's output and intermediate outputs, and one sample's FLOPs, of each layer.

    What is kept until backward depends on the precision; outputs travel in the type of the weights in any case.

    Raises:
        InputError: the network fails in training on its own input shape.
    """
    with training_mode(network), ComputeSettings(precision=precision).autocast():
        fewer, more = (list(_layer_usages(network, samples, progress)) for samples in (FEWER, MORE))
    shared = shared_weights(network)
    return tuple(
        Layer(
            name=layer.name,
            parameter_bytes=sum(weight.nbytes for weight in layer.module.parameters()),
            output_bytes=many.output_bytes - few.output_bytes,
            **trainable_size(layer),
            **gradient_sizes(layer, many.gradient_bytes - few.gradient_bytes),
            flops=max(0, many.flops - few.flops),
            activation_bytes=max(0, many.kept_bytes - few.kept_bytes),
            batch_norm_channels=many.batch_norm_channels,
            output_channels=many.output_channels,
            mixes_samples=layer.mixes_samples,
            weight_shapes=weight_shapes(layer, shared),
        )
        for layer, few, many in zip(network.layers, fewer, more, strict=True)
    )


def layer_ties(network: Network) -> tuple[Tie, ...]:
    """The trained weights that several layers use."""
    return tuple(
        Tie(name=tied.names[0], parameter_bytes=tied.size_bytes, layers=tied.layers, shape=tuple(weight.shape))
        for weight, tied in shared_weights(network).items()
    )


def shared_weights(network: Network) -> dict[nn.Parameter, TiedWeight]:
    """The trained weights that several layers use, in the order of their first use."""
    ties = tied_weights(network.layers)
    return {network.layers[each.layers[0] - 1].module.get_parameter(each.names[0]): each for each in ties}


def weight_shapes(layer: NetworkLayer, shared: Container[nn.Parameter]) -> tuple[tuple[int, ...], ...]:
    """The shapes of the weights of a layer that are trained and that no other layer uses."""
    own = [weight for weight in layer.module.parameters() if weight.requires_grad and weight not in shared]
    return tuple(tuple(weight.shape) for weight in own)


def batch_norm_channels(network: Network) -> list[tuple[int, ...]]:
    """The channels of the batch norms of each layer, in the order in which they run."""
    found = []
    with training_mode(network), torch.no_grad():
        bundle = network.example_batch(FEWER)
        # A run may have turned the weights into other numbers.
        weights = (w.dtype for each in network.layers for w in each.module.parameters() if w.is_floating_point())
        dtype = next(weights, None)
        bundle = tuple(each.to(dtype) if each.is_floating_point() else each for each in bundle)
        for layer in network.layers:
            with name_failing_layer(network, layer.name, FEWER), BatchNormRecorder() as norms:
                bundle = as_bundle(layer.module(*bundle))
            found.append(tuple(norms.channels))
    return found


def input_bytes(network: Network) -> int:
    """Bytes of one sample as input of the first layer."""
    return sum(spec.sample_bytes for spec in network.inputs)


def _layer_usages(network: Network, samples: int, progress: Progress) -> Iterator[LayerUsage]:
    bundle = network.example_batch(samples)
    before = network.inputs
    for layer in network.layers:
        progress(layer.name, 0.0)
        learning = [spec.gradient for spec in before]
        bundle = tuple(each.detach().requires_grad_(flag) for each, flag in zip(bundle, learning, strict=True))
        with name_failing_layer(network, layer.name, samples):
            usage, bundle = _layer_usage(layer, bundle)
        before = layer.outputs
        yield usage


def _layer_usage(layer: NetworkLayer, bundle: Bundle) -> tuple[LayerUsage, Bundle]:
    module = layer.module
    memory = AllocationCounter([*bundle, *module.parameters(), *module.buffers()])
    with memory, FlopCounterMode(display=False) as counter, BatchNormRecorder() as norms:
        outputs = as_bundle(module(*bundle))
    sizes = [output.numel() * spec.dtype.itemsize for output, spec in zip(outputs, layer.outputs, strict=True)]
    back = [size for size, spec in zip(sizes, layer.outputs, strict=True) if spec.gradient]
    usage = LayerUsage(
        counter.get_total_flops(),
        memory.total_bytes,
        sum(sizes),
        sum(back),
        tuple(norms.channels),
        scale_count(layer.outputs),
    )
    return usage, outputs


def trainable_size(layer: NetworkLayer) -> dict[str, Any]:
    """What a profile says of a layer's weights that are trained, where some are not."""
    weights = list(layer.module.parameters())
    trained = [weight.nbytes for weight in weights if weight.requires_grad]
    return {} if len(trained) == len(weights) else {"trainable_bytes": sum(trained)}


def gradient_sizes(layer: NetworkLayer, gradient_bytes: int) -> dict[str, Any]:
    """What a profile says of a layer's gradient and integers, where it is not that of one tensor that learns."""
    if all(spec.gradient for spec in layer.outputs):
        return {}
    return {
        "gradient_bytes": gradient_bytes,
        "gradient_channels": scale_count([spec for spec in layer.outputs if spec.gradient]) or None,
        "uncoded_bytes": sum(spec.sample_bytes for spec in layer.outputs if not spec.dtype.is_floating_point),
    }


def scale_count(outputs: Sequence[TensorSpec]) -> int:
    """The channels of all tensors of floats together, for which a codec sends a scale each."""
    return sum(spec.shape[0] if spec.shape else 1 for spec in outputs if spec.dtype.is_floating_point)


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
