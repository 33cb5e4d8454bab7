"""Bytes of a network's layers, as sums, so that those of a run of layers are a difference."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from palmette.spec.codec import CODEC_KINDS, FLOAT_BYTES, Codec
from palmette.spec.profile import Table

Run = tuple[int, int]


def runs_of(layers: Iterable[int]) -> tuple[Run, ...]:
    """Layers in ascending order as runs (first, last)."""
    runs: list[Run] = []
    for number in layers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)


class Sizes:
    """What travels and what is kept: the input, outputs, weights and activations of each layer."""

    __slots__ = (
        "_channels",
        "_kept",
        "_weights",
        "batch_norm_channels",
        "batch_norm_layers",
        "input_bytes",
        "output_bytes",
    )

    def __init__(self, table: Table, input_bytes: float) -> None:
        self.input_bytes = input_bytes
        self.output_bytes = [0.0, *(layer.output_bytes for layer in table.layers)]
        self.batch_norm_channels = [(), *(layer.batch_norm_channels for layer in table.layers)]
        self.batch_norm_layers = [n for n, channels in enumerate(self.batch_norm_channels) if channels]
        self._channels = [0, *(layer.output_channels or 0 for layer in table.layers)]
        self._weights = [0.0, *accumulate(layer.parameter_bytes for layer in table.layers)]
        self._kept = [0.0, *accumulate(layer.kept_bytes for layer in table.layers)]

    def weight_bytes(self, runs: Iterable[Run]) -> float:
        """Bytes of the weights, and so of the gradients, of runs of layers."""
        total = 0.0
        for first, last in runs:
            total += self._weights[last] - self._weights[first - 1]
        return total

    def activation_bytes(self, run: Run, samples: int) -> float:
        """What the samples of an instance keep until backward."""
        return samples * (self._kept[run[1]] - self._kept[run[0] - 1])

    def message_bytes(self, layer: int, samples: int, codec: Codec) -> float:
        """Bytes on the wire of the output of a layer, labels aside, and of the gradient that comes back."""
        numbers = samples * self.output_bytes[layer] / FLOAT_BYTES
        return CODEC_KINDS[codec].message_bytes(numbers, self._channels[layer])
