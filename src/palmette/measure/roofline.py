"""Seconds of each layer on hardware that nobody can measure right now, by the catalogue's roofline."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.spec.profile import Layer, Times
from palmette.zoo import hardware as catalogue
from palmette.zoo.hardware import Hardware


def modelled_times(machine: Hardware, layers: Sequence[Layer], input_bytes: float) -> Times:
    """What the catalogue predicts for the layers; ``input_bytes`` is what a sample brings to the first one."""
    inputs = [input_bytes, *(layer.output_bytes for layer in layers[:-1])]
    moved = [taken + layer.output_bytes for taken, layer in zip(inputs, layers, strict=True)]
    work = [(layer.flops, bytes_moved) for layer, bytes_moved in zip(layers, moved, strict=True)]
    weights = [layer.parameter_bytes for layer in layers]
    times = Times(
        forward_s=tuple(catalogue.forward_s(machine, *each) for each in work),
        backward_s=tuple(catalogue.backward_s(machine, *each) for each in work),
        update_s=tuple(catalogue.update_s(machine, size) for size in weights),
        forward_call_s=tuple(catalogue.forward_call_s(machine, size) for size in weights),
        backward_call_s=tuple(catalogue.backward_call_s(machine, size) for size in weights),
        source="modelled",
    )
    return times.model_copy(update={"modelled_as": machine.name})
