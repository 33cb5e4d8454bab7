"""Seconds of a network's layers on one node, as sums, so that those of a run of layers are a difference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from palmette.cost.steps import Span
from palmette.spec.profile import Layer, Table, Times

HALF = 0.5
"""The part of a layer's backward that the gradient of its input takes, where a profile does not say: a matrix product
and a convolution need as many operations for it as for the gradient of their weights."""


class Seconds:
    """Sums of a node's layer times."""

    __slots__ = (
        "backward",
        "backward_call",
        "backward_input",
        "backward_input_call",
        "decode",
        "forward",
        "forward_call",
        "update",
    )

    def __init__(self, table: Table, node: str) -> None:
        times, none = table.nodes[node], (0.0,) * len(table.layers)
        self.decode = times.decode_s or 0.0
        self.forward = [0.0, *accumulate(times.forward_s)]
        self.backward = [0.0, *accumulate(times.backward_s)]
        self.update = [0.0, *accumulate(times.update_s)]
        self.forward_call = [0.0, *accumulate(times.forward_call_s or none)]
        self.backward_call = [0.0, *accumulate(times.backward_call_s or none)]
        parts = input_parts(table.layers, times)
        self.backward_input: list[float] = [0.0, *accumulate(map(mul, parts, times.backward_s))]
        self.backward_input_call: list[float] = [0.0, *accumulate(map(mul, parts, times.backward_call_s or none))]

    def forward_s(self, first: int, last: int, samples: int) -> float:
        """Seconds of a forward call of layers ``first`` to ``last`` with the whole CPU."""
        fixed = self.forward_call[last] - self.forward_call[first - 1]
        return fixed + samples * (self.forward[last] - self.forward[first - 1])

    def backward_s(self, first: int, last: int, samples: int) -> float:
        """Seconds of a backward call of layers ``first`` to ``last`` with the whole CPU."""
        fixed = self.backward_call[last] - self.backward_call[first - 1]
        return fixed + samples * (self.backward[last] - self.backward[first - 1])

    def backward_input_s(self, first: int, last: int, samples: int) -> float:
        """Seconds of the part of a backward call that ends with the gradient of the input."""
        fixed = self.backward_input_call[last] - self.backward_input_call[first - 1]
        return fixed + samples * (self.backward_input[last] - self.backward_input[first - 1])

    def backward_weights_s(self, first: int, last: int, samples: int) -> float:
        """Seconds of the rest of a backward call: the gradients of the weights."""
        rest_s = self.backward_s(first, last, samples) - self.backward_input_s(first, last, samples)
        return max(0.0, rest_s)

    def update_s(self, first: int, last: int) -> float:
        """Seconds of a weight update of layers ``first`` to ``last`` with the whole CPU; a tie's is in a layer's."""
        last = min(last, len(self.update) - 1)
        return self.update[last] - self.update[min(first - 1, last)]

    def forward_span_s(self, span: Span, samples: int) -> float:
        """Seconds of a part of a forward call; a layer that it cuts counts in proportion."""
        return _within(self.forward_call, span) + samples * _within(self.forward, span)

    def recompute_s(self, first: int, last: int, samples: int) -> float:
        """Seconds of another forward of layers ``first`` to ``last``; samples need not be decoded again."""
        return self.forward_s(first, last, samples) - (samples * self.decode if first == 1 else 0.0)

    def backward_span_s(self, span: Span, samples: int) -> float:
        """Seconds of a part of a backward call; a layer that it cuts counts in proportion."""
        return _within(self.backward_call, span) + samples * _within(self.backward, span)


def input_parts(layers: Sequence[Layer], times: Times) -> list[float]:
    """The part of each layer's backward that the gradient of its input takes; all of it where no weights learn."""
    known = times.backward_input_s or (None,) * len(layers)
    return [
        1.0 if not layer.learned_bytes else HALF if input_s is None or not whole_s else min(1.0, input_s / whole_s)
        for layer, input_s, whole_s in zip(layers, known, times.backward_s, strict=True)
    ]


def _within(sums: Sequence[float], span: Span) -> float:
    return _up_to(sums, span[1]) - _up_to(sums, span[0])


def _up_to(sums: Sequence[float], position: float) -> float:
    whole = int(position)
    part = position - whole
    return sums[whole] + part * (sums[whole + 1] - sums[whole]) if part else sums[whole]
