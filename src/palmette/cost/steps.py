"""The operations of an iteration: the nodes of a graph that the event clock plays and workers execute.

    data ─▶ forward ─▶ output ─▶ forward … ─▶ backward ─▶ gradient ─▶ backward … ─▶ push ─▶ average ─▶ pull ─▶ update

Beside them, an upload carries samples that a later phase will need. Calls (forward, recompute, backward, update) belong
to an instance; transfers (data, output, gradient, push, pull) carry bytes between nodes and do not exist where both
ends are on one node. An average takes no time: it is where the gradients of replicated layers meet. Where batch norm
takes its statistics over the whole batch, a forward or backward call falls into segments; between two of them
statistics travel to where the replicas meet, are combined, and their totals return:

    forward ─▶ statistics ─▶ combine ─▶ totals ─▶ forward …

An instance that recomputes keeps only the inputs of a few blocks of its layers (``recompute``); its backward goes
through them one by one, the last first, each after another forward of that block:

    forward … ─▶ gradient ─▶ recompute ─▶ backward ─▶ recompute ─▶ backward …

With ``order: zero-bubble`` backward falls into halves (``halves``): the gradient of the input, which the instance
before waits for, and later those of the weights, which only the update needs:

    … gradient ─▶ backward input ─▶ gradient …
                        └─ … ─▶ backward weights ─▶ update

Where gradients are clipped by the norm of all of them, that norm is found before the updates (``clipping``):

    … pull ─▶ squares ─▶ norm ─▶ total norm ─▶ update

Where the divisor of the loss varies from batch to batch, several roots find it before they go back (``divisor``):

    forward ─▶ count ─▶ divisor ─▶ total divisor ─▶ backward
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from palmette.cost.sizes import Run
from palmette.spec.plan import Phase
from palmette.spec.trace import Half


class Kind(Enum):
    """What an operation does."""

    DATA = "data"
    UPLOAD = "upload"
    FORWARD = "forward"
    OUTPUT = "output"
    RECOMPUTE = "recompute"
    COUNT = "count"
    DIVISOR = "divisor"
    TOTAL_DIVISOR = "total divisor"
    BACKWARD = "backward"
    BACKWARD_INPUT = "backward input"
    BACKWARD_WEIGHTS = "backward weights"
    GRADIENT = "gradient"
    STATISTICS = "statistics"
    COMBINE = "combine"
    TOTALS = "totals"
    PUSH = "push"
    AVERAGE = "average"
    PULL = "pull"
    SQUARES = "squares"
    NORM = "norm"
    TOTAL_NORM = "total norm"
    UPDATE = "update"


GRADIENT_CALLS = (Kind.BACKWARD, Kind.BACKWARD_INPUT)
"""Calls that end with the gradient of an instance's input, and the loss of a root."""
HALVES: dict[Kind, Half] = {Kind.BACKWARD_INPUT: "input", Kind.BACKWARD_WEIGHTS: "weights"}
"""Calls that are half of a backward pass."""
SAMPLES = (Kind.DATA, Kind.UPLOAD)
"""Transfers of samples."""
REDUCTIONS = (Kind.AVERAGE, Kind.COMBINE, Kind.NORM, Kind.DIVISOR)
"""Where what several nodes have computed is combined: neither a call nor a transfer, it takes no time."""

NUMBER_BYTES = 8.0
"""A sum of squares, a norm, a count or a divisor on the wire: one number in float64."""


class NormPoint(NamedTuple):
    """A batch norm whose parts share their statistics: its layer, which of the layer's it is, from 0, its channels."""

    layer: int
    number: int
    channels: int

    @property
    def size_bytes(self) -> float:
        """Of its statistics on the wire: a count and two sums a channel, in float64."""
        return 8.0 * (1 + 2 * self.channels)


class Piece(NamedTuple):
    """A part of the numbers of each layer in a message: which, from 0, of how many."""

    number: int
    of: int

    def span(self, numbers: int) -> tuple[int, int]:
        """Where it begins and ends among so many numbers."""
        return numbers * self.number // self.of, numbers * (self.number + 1) // self.of


Span = tuple[float, float]
"""From where to where in the network, in layers: (2.0, 3.5) is the third layer and half of the fourth."""


@dataclass(slots=True)
class Step:
    """One operation: where it happens, of which instance, after which others.

    ``node`` is the node of a call, the sender of a transfer; ``to`` the receiver of a transfer, else None.
    ``layers`` are those that a push, an average, a pull or an update is about, as runs (first, last); of an instance
    that recomputes, all blocks for its forward, and one of them for a recompute or a backward; likewise the parts of
    one whose gradients leave in buckets.
    ``span`` is the part of the network that a segment of a forward or backward call goes through; ``point`` the batch
    norm that statistics are about, or that a segment stops at. A push may carry one of several ``parts`` of its layers.
    Of layers that are exchanged piece by piece, ``piece`` is the one that a push, an average or a pull is about. A
    transfer leaves once that which it is ``behind`` has left, though it may not have arrived.
    """

    kind: Kind
    instance: int
    node: str
    after: list[int]
    to: str | None = None
    source: int | None = None
    layers: tuple[Run, ...] = ()
    span: Span | None = None
    point: NormPoint | None = None
    parts: int = 1
    piece: Piece | None = None
    behind: int | None = None


Steps = list[Step]


class Iteration(NamedTuple):
    """The operations of an iteration, the samples that each instance computes on, the bytes of each transfer.

    ``known`` is the fraction of each instance's samples whose last output both ends have kept; empty for none.
    """

    steps: Steps
    samples: list[int]
    size_bytes: list[float]
    known: Sequence[float] = ()


TimedStep = tuple[Step, float, float, float]
"""An operation, the bytes that it carries, its start and its end."""


def is_background(kind: Kind, phase: Phase) -> bool:
    """Whether a transfer gives way to all others: samples that no call of this iteration waits for."""
    return kind is Kind.UPLOAD or (phase.ahead and kind is Kind.DATA)


def add(steps: Steps, step: Step) -> int:
    """Append an operation and return its number."""
    steps.append(step)
    return len(steps) - 1
