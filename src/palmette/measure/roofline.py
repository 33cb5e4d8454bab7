"""Seconds of each layer on hardware that cannot be measured here, by the catalogue's roofline model."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.spec.profile import Layer, Times
from palmette.zoo import hardware as catalogue
from palmette.zoo.hardware import Hardware


def roofline_times(machine: Hardware, layers: Sequence[Layer], input_bytes: float) -> Times:
    """The times that the roofline model predicts; ``input_bytes`` is the size of an input sample."""
    inputs = [input_bytes, *(layer.output_bytes for layer in layers[:-1])]
    moved = [taken + layer.output_bytes for taken, layer in zip(inputs, layers, strict=True)]
    work = [(layer.flops, bytes_moved) for layer, bytes_moved in zip(layers, moved, strict=True)]
    weights = [layer.parameter_bytes for layer in layers]
    parts = [backward_part(layer) for layer in layers]
    times = Times(
        forward_s=tuple(catalogue.forward_s(machine, *each) for each in work),
        backward_s=tuple(part * catalogue.backward_s(machine, *each) for part, each in zip(parts, work, strict=True)),
        update_s=tuple(catalogue.update_s(machine, layer.learned_bytes) for layer in layers),
        forward_call_s=tuple(catalogue.forward_call_s(machine, size) for size in weights),
        backward_call_s=tuple(
            part * catalogue.backward_call_s(machine, size) for part, size in zip(parts, weights, strict=True)
        ),
        source="modelled",
    )
    return times.model_copy(update={"modelled_as": machine.name})


def backward_part(layer: Layer) -> float:
    """The part of a whole backward that a layer has: half where its weights are frozen, none where nothing learns."""
    if layer.gradient_bytes == 0:
        return 0.0
    return 0.5 if layer.parameter_bytes and not layer.learned_bytes else 1.0
