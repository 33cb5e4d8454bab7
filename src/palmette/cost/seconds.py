"""Seconds of a network's layers on one node, as sums, so that those of a run of layers are a difference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from palmette.cost.steps import Span
from palmette.spec.profile import Table


class Seconds:
    """Sums of a node's layer times."""

    __slots__ = ("backward", "backward_call", "decode", "forward", "forward_call", "update")

    def __init__(self, table: Table, node: str) -> None:
        times, none = table.nodes[node], (0.0,) * len(table.layers)
        self.decode = times.decode_s or 0.0
        self.forward = [0.0, *accumulate(times.forward_s)]
        self.backward = [0.0, *accumulate(times.backward_s)]
        self.update = [0.0, *accumulate(times.update_s)]
        self.forward_call = [0.0, *accumulate(times.forward_call_s or none)]
        self.backward_call = [0.0, *accumulate(times.backward_call_s or none)]

    def forward_s(self, first: int, last: int, samples: int) -> float:
        """Seconds of a forward call of layers ``first`` to ``last`` with the whole CPU."""
        fixed = self.forward_call[last] - self.forward_call[first - 1]
        return fixed + samples * (self.forward[last] - self.forward[first - 1])

    def backward_s(self, first: int, last: int, samples: int) -> float:
        """Seconds of a backward call of layers ``first`` to ``last`` with the whole CPU."""
        fixed = self.backward_call[last] - self.backward_call[first - 1]
        return fixed + samples * (self.backward[last] - self.backward[first - 1])

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


def _within(sums: Sequence[float], span: Span) -> float:
    return _up_to(sums, span[1]) - _up_to(sums, span[0])


def _up_to(sums: Sequence[float], position: float) -> float:
    whole = int(position)
    part = position - whole
    return sums[whole] + part * (sums[whole + 1] - sums[whole]) if part else sums[whole]
