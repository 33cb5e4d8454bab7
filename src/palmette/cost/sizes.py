"""Bytes of a network's layers, as sums, so that those of a run of layers are a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

from palmette.cost.recompute import Blocks, Run, best_blocks
from palmette.spec.codec import CODEC_KINDS, FLOAT_BYTES, Codec, returning_codec
from palmette.spec.exchange import PLAIN_EXCHANGE, Exchange
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
    ``exchange`` is how gradients and differences travel in phases that do not say so themselves.
    """

    __slots__ = (
        "_blocks",
        "_channels",
        "_exchanged",
        "_exchanges",
        "_frozen_kept",
        "_gradient_channels",
        "_kept",
        "_learns",
        "_stored",
        "_trainable",
        "_uncoded",
        "_weights",
        "_width",
        "batch_norm_channels",
        "batch_norm_layers",
        "exchange",
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
        exchange: Exchange = PLAIN_EXCHANGE,
        *,
        float_bytes: int = FLOAT_BYTES,
    ) -> None:
        self._width = float_bytes
        self.input_bytes = input_bytes
        self.exchange = exchange
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
        self._exchanges = ExchangedBytes(table)
        self._exchanged = self._exchanges.sums(exchange)
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

    def exchanged_bytes(self, runs: Iterable[Run], exchange: Exchange = PLAIN_EXCHANGE) -> float:
        """Bytes on the wire of gradients of runs of layers that meet in every iteration; ties are runs of their own.

        ``exchange`` is what a phase says.
        """
        sums = self._exchanged if exchange is PLAIN_EXCHANGE else self._exchanges.sums(self.exchange_of(exchange))
        total = 0.0
        for first, last in runs:
            total += sums[last] - sums[first - 1]
        return total

    def piece_bytes(self, runs: Iterable[Run], span: Callable[[int], tuple[int, int]]) -> float:
        """Bytes of a piece of plain gradients: of each layer with so many numbers, those that ``span`` says."""
        total = 0.0
        for first, last in runs:
            for number in range(first, last + 1):
                numbers = round(self.exchanged_numbers([(number, number)]))
                begin, end = span(numbers)
                total += self.exchanged_bytes([(number, number)]) * (end - begin) / max(1, numbers)
        return total

    def difference_bytes(self, runs: Iterable[Run], exchange: Exchange = PLAIN_EXCHANGE) -> float:
        """Bytes on the wire of weights that are averaged after a window; a tie travels with each of its layers."""
        chosen, runs = self.exchange_of(exchange), list(runs)
        if not chosen.kind.lossy:
            return self.trainable_bytes(runs)
        last = len(self.output_bytes) - 1
        tied = [
            tie for tie, layers in enumerate(self.ties, last + 1) for n in layers if any(a <= n <= b for a, b in runs)
        ]
        return self.exchanged_bytes([*runs, *((tie, tie) for tie in tied)], chosen)

    def exchanged_numbers(self, runs: Iterable[Run]) -> float:
        """The numbers of those gradients."""
        sums = self._exchanges.sums(PLAIN_EXCHANGE)
        return sum(sums[last] - sums[first - 1] for first, last in runs) / FLOAT_BYTES

    def trained_numbers(self, runs: Iterable[Run]) -> float:
        """The numbers of the weights that are trained of runs of layers."""
        return self.trainable_bytes(runs) / FLOAT_BYTES

    def exchange_of(self, said: Exchange) -> Exchange:
        """How gradients or differences travel in a phase that says so, or says nothing."""
        return self.exchange if said == PLAIN_EXCHANGE else said

    @property
    def has_shapes(self) -> bool:
        """Whether the shapes of all weights that are exchanged are known."""
        return self._exchanges.has_shapes

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

    def message_bytes(self, layer: int, samples: int, codec: Codec, *, known: float = 0.0) -> float:
        """Bytes on the wire of the output of a layer, labels aside.

        ``known`` is the fraction of the samples whose last output both ends have, if the codec has them keep it.
        """
        kind, numbers, channels = CODEC_KINDS[codec], self.coded_numbers(layer, samples), self._channels[layer]
        if kind.first is None:
            return kind.message_bytes(numbers, channels, self._width) + samples * self._uncoded[layer]
        parts = [(CODEC_KINDS[kind.first], 1 - known), (kind, known)]
        coded = sum(each.message_bytes(part * numbers, channels, self._width) for each, part in parts if part)
        return coded + samples * self._uncoded[layer]

    def gradient_message_bytes(self, layer: int, samples: int, codec: Codec) -> float:
        """Bytes on the wire of the gradient that comes back to the output of a layer."""
        numbers, kind = self.coded_numbers(layer, samples, back=True), CODEC_KINDS[returning_codec(codec)]
        return kind.message_bytes(numbers, self._gradient_channels[layer], self._width)

    def coded_bytes(self, layer: int) -> float:
        """Bytes of what a codec is for in the output of a layer for one sample, before it is coded."""
        return self.output_bytes[layer] - self._uncoded[layer]

    def coded_numbers(self, layer: int, samples: int, *, back: bool = False) -> float:
        """The numbers of the output of a layer, or of the gradient that comes back, that a codec is for."""
        each = self.gradient_bytes[layer] if back else self.coded_bytes(layer)
        return samples * each / self._width


class ExchangedBytes:
    """Bytes of the gradients of each layer's own weights, then of each tie's, as they travel in an exchange."""

    def __init__(self, table: Table) -> None:
        own = [layer.learned_bytes for layer in table.layers]
        for tie in table.ties:
            for number in tie.layers:
                own[number - 1] -= tie.parameter_bytes
        self._plain = [*own, *(tie.parameter_bytes for tie in table.ties)]
        known = [layer.weight_shapes for layer in table.layers]
        self._shapes = [*known, *(None if tie.shape is None else (tie.shape,) for tie in table.ties)]
        self._sums: dict[Exchange, list[float]] = {}

    @property
    def has_shapes(self) -> bool:
        """Whether the shapes of all these weights are known."""
        return not any(size and shapes is None for size, shapes in zip(self._plain, self._shapes, strict=True))

    def sums(self, exchange: Exchange) -> list[float]:
        """The bytes of all before each layer or tie, and of all."""
        if exchange not in self._sums:
            coded = self._plain
            if exchange.kind.lossy:
                both = zip(self._plain, self._shapes, strict=True)
                coded = [_coded_bytes(size, shapes, exchange) for size, shapes in both]
            self._sums[exchange] = [0.0, *accumulate(coded)]
        return self._sums[exchange]


def _coded_bytes(size_bytes: float, shapes: Sequence[Sequence[int]] | None, exchange: Exchange) -> float:
    """Bytes of a layer's gradients; of weights whose shapes are not known, as if they were one."""
    numbers = round(size_bytes / FLOAT_BYTES)
    return float(sum(map(exchange.bytes_of, [(numbers,)] if shapes is None else shapes)))
