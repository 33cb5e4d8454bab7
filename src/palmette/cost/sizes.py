"""Bytes of a network's layers, as sums, so that those of a run of layers are a difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from palmette.cost.recompute import Blocks, Run, best_blocks
from palmette.spec.codec import CODEC_KINDS, FLOAT_BYTES, Codec
from palmette.spec.plan import InputAs
from palmette.spec.profile import Table

__all__ = ["Run", "Sizes", "runs_of"]


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
    """What travels and what is kept: samples, the input, outputs, weights and activations of each layer.

    ``stored_bytes`` are those of a sample as it is stored, by the node that owns it, which has so many ``samples``.
    """

    __slots__ = (
        "_blocks",
        "_channels",
        "_exchanged",
        "_frozen_kept",
        "_gradient_channels",
        "_kept",
        "_learns",
        "_stored",
        "_trainable",
        "_uncoded",
        "_weights",
        "batch_norm_channels",
        "batch_norm_layers",
        "gradient_bytes",
        "input_bytes",
        "mixing_layers",
        "output_bytes",
        "samples",
        "ties",
    )

    def __init__(
        self,
        table: Table,
        input_bytes: float,
        stored_bytes: Mapping[str, float] | None = None,
        samples: Mapping[str, int] | None = None,
    ) -> None:
        self.input_bytes = input_bytes
        self.samples = samples or {}
        self._stored = stored_bytes or {}
        self.output_bytes = [0.0, *(layer.output_bytes for layer in table.layers)]
        self.gradient_bytes = [0.0, *(layer.returned_bytes for layer in table.layers)]
        self._learns = [False, *(layer.gradient_bytes is None or layer.gradient_bytes > 0 for layer in table.layers)]
        self._uncoded = [0.0, *(layer.uncoded_bytes for layer in table.layers)]
        self.batch_norm_channels = [(), *(layer.batch_norm_channels for layer in table.layers)]
        self.batch_norm_layers = [n for n, channels in enumerate(self.batch_norm_channels) if channels]
        self._channels = [0, *(layer.output_channels or 0 for layer in table.layers)]
        self._gradient_channels = [0, *(layer.returned_channels or 0 for layer in table.layers)]
        self._weights = [0.0, *accumulate(layer.parameter_bytes for layer in table.layers)]
        self.ties = [tie.layers for tie in table.ties]
        self._trainable = [0.0, *accumulate(layer.learned_bytes for layer in table.layers)]
        self._exchanged = [0.0, *accumulate(_exchanged_bytes(table))]
        kept = [0.0, *(layer.kept_bytes for layer in table.layers)]
        self._kept = list(accumulate(each * learns for each, learns in zip(kept, self._learns, strict=True)))
        self._frozen_kept = [each * (not learns) for each, learns in zip(kept, self._learns, strict=True)]
        self.mixing_layers = [n for n, layer in enumerate(table.layers, 1) if layer.mixes_samples]
        self._blocks: dict[Run, Blocks] = {}

    def sample_bytes(self, node: str, input_as: InputAs = "stored") -> float:
        """Bytes of one sample of a node on the wire."""
        return self.input_bytes if input_as == "tensor" else self._stored.get(node, self.input_bytes)

    def weight_bytes(self, runs: Iterable[Run]) -> float:
        """Bytes of the weights of runs of layers."""
        total = 0.0
        for first, last in runs:
            total += self._weights[last] - self._weights[first - 1]
        return total

    def trainable_bytes(self, runs: Iterable[Run]) -> float:
        """Bytes of the weights that are trained, and so of the gradients, of runs of layers."""
        total = 0.0
        for first, last in runs:
            total += self._trainable[last] - self._trainable[first - 1]
        return total

    def exchanged_bytes(self, runs: Iterable[Run]) -> float:
        """Bytes of the gradients of runs of layers that meet in every iteration; ties are runs of their own."""
        total = 0.0
        for first, last in runs:
            total += self._exchanged[last] - self._exchanged[first - 1]
        return total

    def activation_bytes(self, run: Run, samples: int) -> float:
        """What samples keep at most: until backward, or while a layer before all that learn computes."""
        return samples * max(self._kept[run[1]] - self._kept[run[0] - 1], self._passing_bytes(run))

    def _passing_bytes(self, run: Run) -> float:
        """What a sample takes at most while layers compute that no gradient comes back to."""
        return max(self._frozen_kept[run[0] : run[1] + 1], default=0.0)

    def blocks(self, run: Run) -> tuple[Run, ...]:
        """The blocks in which an instance recomputes its layers: those that a gradient comes back to."""
        return self._divided(run).runs

    def recompute_bytes(self, run: Run, samples: int) -> float:
        """What the samples of an instance that recomputes keep at most: the inputs of its blocks, and one block.

        Layers before all that learn keep nothing, but while they compute.
        """
        return samples * max(self._divided(run).peak_bytes, self._passing_bytes(run))

    def _divided(self, run: Run) -> Blocks:
        if run not in self._blocks:
            learning = [number for number in range(run[0], run[1] + 1) if self._learns[number]]
            inputs = [0.0, self.input_bytes, *self.output_bytes[1:]]
            found = best_blocks((learning[0], run[1]), inputs, self._kept) if learning else Blocks((), 0.0)
            self._blocks[run] = found
        return self._blocks[run]

    def has_gradient(self, layer: int) -> bool:
        """Whether a gradient comes back to the output of a layer: the layer, or one before it, learns."""
        return self._learns[layer]

    def message_bytes(self, layer: int, samples: int, codec: Codec) -> float:
        """Bytes on the wire of the output of a layer, labels aside."""
        uncoded = self._uncoded[layer]
        numbers = samples * (self.output_bytes[layer] - uncoded) / FLOAT_BYTES
        return CODEC_KINDS[codec].message_bytes(numbers, self._channels[layer]) + samples * uncoded

    def gradient_message_bytes(self, layer: int, samples: int, codec: Codec) -> float:
        """Bytes on the wire of the gradient that comes back to the output of a layer."""
        numbers = samples * self.gradient_bytes[layer] / FLOAT_BYTES
        return CODEC_KINDS[codec].message_bytes(numbers, self._gradient_channels[layer])


def _exchanged_bytes(table: Table) -> list[float]:
    """Bytes of the gradients of each layer's own weights, then of each tie's."""
    own = [layer.learned_bytes for layer in table.layers]
    for tie in table.ties:
        for number in tie.layers:
            own[number - 1] -= tie.parameter_bytes
    return [*own, *(tie.parameter_bytes for tie in table.ties)]
