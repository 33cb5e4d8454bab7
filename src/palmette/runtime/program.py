"""A worker's program: what one node does in an iteration, as plain operations. Pure, no torch.

It is compiled from the same graph that the event clock simulates. A transfer is a ``send`` in one node's program and a
``receive`` in another's, over a channel that has the same number in both. Operations list those of the same node that
they come after; dependencies between nodes go through channels.

    phone                               server
      1 forward  S   [1..2]               3 receive  output of S   ◀── channel 0
      2 send     output of S ──▶ server   4 forward  O   [3..5]    after 3
      …                                   …
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple

from palmette.cost.operations import samples_by_instance, topological
from palmette.cost.sizes import Run
from palmette.cost.steps import HALVES, Iteration, Kind, NormPoint, Piece, Step, is_background
from palmette.spec.plan import Phase
from palmette.spec.trace import Op


class Channel(NamedTuple):
    """One message per iteration from one node to another."""

    number: int
    sender: str
    receiver: str


@dataclass(frozen=True, slots=True)
class ProgramOperation:
    """One operation of a node; ``number`` is the same on all nodes, ``after`` are operations of this node.

    ``what`` is the kind of step it belongs to: the same as ``op`` for a call, the message's content for a transfer.
    A send leaves once that which it is ``behind`` has left.
    """

    number: int
    op: Op
    what: Kind
    instance: int
    after: tuple[int, ...]
    channel: Channel | None = None
    source: int | None = None
    layers: tuple[Run, ...] = ()
    point: NormPoint | None = None
    piece: Piece | None = None
    behind: int | None = None

    @property
    def said(self) -> str:
        """What it does in words; of a half of backward, which one."""
        return f"{self.op} {HALVES[self.what]}" if self.what in HALVES else self.op

    def __str__(self) -> str:
        words = [f"{self.number:4d}  {self.said:8s}"]
        if self.channel is not None:
            sending = self.op == "send"
            peer = self.channel.receiver if sending else self.channel.sender
            words.append(f"{self.what.value} {'to' if sending else 'from'} {peer} (channel {self.channel.number})")
        if self.layers:
            words.append("layers " + ", ".join(f"{first}–{last}" for first, last in self.layers))
        if self.piece is not None:
            words.append(f"piece {self.piece.number + 1} of {self.piece.of}")
        if self.after:
            words.append("after " + ", ".join(map(str, self.after)))
        return "  ".join(words)


@dataclass(frozen=True)
class Program:
    """All operations of a node in an iteration, in an order in which they could be executed one by one."""

    node: str
    phase: Phase
    operations: tuple[ProgramOperation, ...]

    def __str__(self) -> str:
        ids = [instance.id for instance in self.phase.instances]
        return "\n".join(f"{operation}  [{ids[operation.instance]}]" for operation in self.operations)

    @property
    def channels(self) -> list[Channel]:
        """The channels that this node sends or receives on."""
        return [operation.channel for operation in self.operations if operation.channel is not None]

    @property
    def background_channels(self) -> frozenset[int]:
        """The numbers of those for samples that no call of their iteration waits for: they give way to all others."""
        return frozenset(
            each.channel.number
            for each in self.operations
            if each.channel is not None and is_background(each.what, self.phase)
        )

    @property
    def own(self) -> list[int]:
        """The instances that this node hosts."""
        return [k for k, instance in enumerate(self.phase.instances) if instance.node == self.node]


def compile_programs(phase: Phase, made: Iteration, first_channel: int = 0) -> dict[str, Program]:
    """The programs of all nodes that take part; channels are numbered from ``first_channel``."""
    channels = _channels(made, first_channel)
    programs: dict[str, list[ProgramOperation]] = {name: [] for name in phase.nodes()}
    for number in in_order(made):
        step = made.steps[number]
        for node, op in _ends(step):
            here = tuple(need for need in step.after if node in _places(made.steps[need]))
            receives = op == "receive"
            programs[node].append(
                ProgramOperation(
                    number=number,
                    op=op,
                    what=step.kind,
                    instance=step.instance,
                    after=() if receives else here,
                    channel=channels.get(number),
                    source=step.source,
                    layers=step.layers,
                    point=step.point,
                    piece=step.piece,
                    behind=step.behind if op == "send" else None,
                )
            )
    return {node: Program(node, phase, tuple(operations)) for node, operations in programs.items()}


_CALLS: dict[Kind, Op] = {
    Kind.FORWARD: "forward",
    Kind.RECOMPUTE: "forward",
    Kind.BACKWARD: "backward",
    Kind.BACKWARD_INPUT: "backward",
    Kind.BACKWARD_WEIGHTS: "backward",
    Kind.COMBINE: "average",
    Kind.AVERAGE: "average",
    Kind.NORM: "average",
    Kind.DIVISOR: "average",
    Kind.UPDATE: "update",
}


def _ends(step: Step) -> list[tuple[str, Op]]:
    """The nodes that take part in a step, and what each of them does."""
    if step.to is None:
        return [(step.node, _CALLS[step.kind])]
    return [(step.node, "send"), (step.to, "receive")]


def _places(step: Step) -> tuple[str, ...]:
    """The nodes that have the result of a step: of a transfer, the receiver."""
    return (step.node if step.to is None else step.to,)


def _channels(made: Iteration, first: int) -> dict[int, Channel]:
    numbers = [number for number, step in enumerate(made.steps) if step.to is not None]
    return {
        number: Channel(first + k, made.steps[number].node, made.steps[number].to or "")
        for k, number in enumerate(numbers)
    }


def in_order(made: Iteration) -> list[int]:
    """Numbers of the steps, each after all that it comes after, and otherwise as they stand."""
    sorter = TopologicalSorter({number: step.after for number, step in enumerate(made.steps)})
    sorter.prepare()
    ready: list[int] = []
    order: list[int] = []
    while sorter.is_active():
        for number in sorter.get_ready():
            heapq.heappush(ready, number)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return order


def positions(phase: Phase) -> list[list[int]]:
    """For each instance, the positions in the batch of the samples that reach it, in the order of its input.

    Sources take consecutive slices of the batch in the plan's order; an instance's input is the samples of its sources,
    then the outputs of the instances before it, both in the plan's order.
    """
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    taken: list[list[int]] = [[] for _ in phase.instances]
    begin = 0
    for source in phase.sources:
        taken[index[source.into]] += range(begin, begin + source.samples)
        begin += source.samples
    for k in topological(phase.instances):
        into = phase.instances[k].into
        if into is not None:
            taken[index[into]] += taken[k]
    return taken


def numbers_of(runs: Iterable[Run]) -> list[int]:
    """The layer numbers in some runs, one by one."""
    return [number for first, last in runs for number in range(first, last + 1)]


class Feeds(NamedTuple):
    """What feeds an instance, in the order of its input: sources, then instances."""

    sources: list[int]
    instances: list[int]


def feeds(phase: Phase) -> list[Feeds]:
    """For each instance, what feeds it."""
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    made = [Feeds([], []) for _ in phase.instances]
    for k, source in enumerate(phase.sources):
        made[index[source.into]].sources.append(k)
    for k in topological(phase.instances):
        into = phase.instances[k].into
        if into is not None:
            made[index[into]].instances.append(k)
    return made


def slices(phase: Phase) -> list[tuple[int, int]]:
    """For each source, the slice of the batch that it takes, as begin and end."""
    begins = [0]
    for source in phase.sources:
        begins.append(begins[-1] + source.samples)
    return list(itertools.pairwise(begins))


__all__ = [
    "Channel",
    "Feeds",
    "Program",
    "ProgramOperation",
    "compile_programs",
    "feeds",
    "numbers_of",
    "positions",
    "samples_by_instance",
    "slices",
]
