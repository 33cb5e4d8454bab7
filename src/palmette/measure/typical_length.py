"""A network with inputs of typical length, where lengths vary from batch to batch.

Sizes on the wire and times are those of such a batch; memory has to be enough for the longest.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from palmette.measure.contexts import Progress
from palmette.measure.layer_sizes import layer_sizes
from palmette.runtime.options import Precision
from palmette.spec.profile import Layer
from palmette.zoo.capture import as_bundle
from palmette.zoo.capture.trial_runs import preserve_state
from palmette.zoo.models import TYPICAL_BATCH, Network


def at_typical_length(network: Network) -> Network:
    """The network as it is called with a batch of typical length; itself, if all batches are alike."""
    example = network.example
    if example is None or not example.varying:
        return network
    shorter = replace(example, tensors=example.cut_to(dict(enumerate(network.typical_lengths))), varying=())
    bundle, layers = network.cast(shorter.batch(2), _dtype(network)), []
    with preserve_state(nn.ModuleList(layer.module for layer in network.layers)), torch.no_grad():
        for layer in network.layers:
            bundle = as_bundle(layer.module.train()(*bundle))
            found = zip(layer.outputs, bundle, strict=True)
            specs = tuple(replace(spec, shape=tuple(each.shape[1:]), integers=None) for spec, each in found)
            layers.append(replace(layer, output_shape=specs[0].shape, outputs=specs))
    shape = tuple(shorter.tensors[0].shape[1:])
    return replace(network, layers=tuple(layers), input_shape=shape, example=shorter)


def layer_sizes_of_lengths(
    network: Network, progress: Progress, precision: Precision | None = None
) -> tuple[Layer, ...]:
    """The sizes of layers at a typical length; what is kept until backward, at the longest.

    Raises:
        InputError: the network fails in training on its own input shape.
    """
    typical = at_typical_length(network)
    sizes = layer_sizes(typical, progress, precision)
    if typical is network:
        return sizes
    longest = layer_sizes(network, progress, precision)
    return tuple(
        size.model_copy(update={"activation_bytes": most.activation_bytes})
        for size, most in zip(sizes, longest, strict=True)
    )


def length_notes(network: Network) -> list[str]:
    """What a user should know about lengths that vary."""
    if network.example is None or not network.varying:
        return []
    said = [f"{network.typical_lengths[number]} of at most {most}" for number, most in network.example.lengths.items()]
    long = f"batches of {TYPICAL_BATCH} samples are {' and '.join(said)} long on average"
    return [f"lengths vary: {long}; times and sizes are for that, memory is for the longest"]


def _dtype(network: Network) -> torch.dtype:
    weights = (w.dtype for each in network.layers for w in each.module.parameters() if w.is_floating_point())
    return next(weights, torch.float32)
