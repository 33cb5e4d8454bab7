"""Layers that several instances hold, where their replicas meet, and how they agree at the end of an iteration.

Under ``step`` the gradients of a layer are added up on each node that holds it, in the plan's order, and travel in one
message per node, together with those of all other layers that meet at the same place:

    phone   backward I ─┐
            backward J ─┴▶ push ──▶ average ──▶ pull ──▶ update       (the average is on the meeting node)

Every node updates a layer once, by the first of its instances that holds it. Where a phase says ``overlap``, there is
one message for each bucket (``buckets``) as soon as its gradients are computed, and each bucket is updated by itself;
the pieces of a large bucket are messages of their own. Between two nodes, these leave one behind the other.

A weight that several layers use (a tie) is treated as a layer of its own, which all instances hold that hold one of
those: its number follows the last layer's, ties in the profile's order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palmette.cost.routes import Routes
from palmette.cost.sizes import Run, Sizes, runs_of
from palmette.cost.steps import Kind, Piece, Step, Steps, add
from palmette.spec.plan import Phase
from palmette.spec.tree import Instance

RunKey = tuple[Run, Piece | None]


@dataclass(frozen=True, slots=True)
class ReplicatedLayers:
    """A run of layers that several instances hold, by number, and the node where they meet.

    ``piece`` is the part of their numbers that it is about, if not all.
    """

    layers: Run
    replicas: tuple[int, ...]
    place: str
    piece: Piece | None = None

    @property
    def key(self) -> RunKey:
        """What tells it apart from other runs of a phase."""
        return self.layers, self.piece


def replicated_layers(phase: Phase, routes: Routes) -> list[ReplicatedLayers]:
    """Runs of layers held by the same several instances, and where each run's gradients meet."""
    instances = phase.instances
    runs = []
    for first, last in shared_runs(instances):
        replicas = tuple(k for k, i in enumerate(instances) if i.layers[0] <= first and last <= i.layers[1])
        if len(replicas) > 1:
            runs.append(ReplicatedLayers((first, last), replicas, _meeting_place(phase, replicas, routes)))
    return runs


def shared_runs(instances: Sequence[Instance]) -> list[Run]:
    """The layers as runs within which no instance begins or ends."""
    starts = sorted({i.layers[0] for i in instances} | {i.layers[1] + 1 for i in instances})
    return [(first, end - 1) for first, end in itertools.pairwise(starts)]


def _meeting_place(phase: Phase, replicas: Sequence[int], routes: Routes) -> str:
    """The phase's own, else the replica on the first root's node, else the one with the fewest hops to it.

    Where no layers are replicated but a weight is tied, a node that hosts nothing else does not take part.
    """
    nodes = list(dict.fromkeys(phase.instances[k].node for k in replicas))
    if phase.meet is not None and len(nodes) > 1 and phase.meet in phase.nodes():
        return phase.meet
    home = next(instance.node for instance in phase.instances if instance.into is None)
    return min(nodes, key=lambda node: routes.hops(node, home))


def exchanged_runs(phase: Phase, sizes: Sizes, routes: Routes) -> list[ReplicatedLayers]:
    """Runs of layers, and ties, whose gradients meet."""
    runs = [*replicated_layers(phase, routes), *replicated_ties(phase, sizes, routes)]
    return [run for run in runs if sizes.exchanged_bytes([run.layers])]


class AveragingSteps:
    """The operations that average gradients of runs: one message per node, or, ``apart``, one for each run.

    ``computed`` says which call of an instance computes the gradients of a run, ``done`` which is its last.
    """

    def __init__(
        self,
        phase: Phase,
        sizes: Sizes,
        runs: Sequence[ReplicatedLayers],
        computed: Callable[[int, Run], int],
        *,
        apart: bool = False,
    ) -> None:
        self._phase, self._sizes, self._runs, self._computed, self._apart = phase, sizes, runs, computed, apart

    def add(self, steps: Steps, done: Sequence[int]) -> list[Step]:
        """Add the exchange of gradients under ``step``; returns the updates that follow it."""
        messages = self._messages()
        pushed: dict[MessageEnds, int] = {}
        last: dict[tuple[str, str], int] = {}
        for ends, message in messages.items():
            after = list(dict.fromkeys(self._computed(k, run) for run in message.layers for k in message.senders))
            push = Step(Kind.PUSH, message.senders[0], ends.node, after, ends.place, layers=message.layers)
            pushed[ends] = self._add_message(steps, push, ends, last)
        averages: dict[RunKey, int] = {}
        for run in self._runs:
            after = list(
                dict.fromkeys(pushed.get(self._ends(run, k), self._computed(k, run.layers)) for k in run.replicas)
            )
            step = Step(Kind.AVERAGE, run.replicas[0], run.place, after, layers=(run.layers,), piece=run.piece)
            averages[run.key] = add(steps, step)
        ready: dict[MessageEnds, int] = {}
        for ends, message in messages.items():
            after = [averages[run.key] for run in message.runs]
            pull = Step(Kind.PULL, message.senders[0], ends.place, after, ends.node, layers=message.layers)
            ready[ends] = self._add_message(steps, pull, ends, last)
        return [
            Step(
                Kind.UPDATE,
                k,
                self._phase.instances[k].node,
                [done[k], *self._met(k, layers, ready, averages)],
                layers=layers,
            )
            for k, layers in self._updates()
        ]

    def _add_message(self, steps: Steps, step: Step, ends: MessageEnds, last: dict[tuple[str, str], int]) -> int:
        """Add a message; where there are several between two nodes, it leaves behind the ``last`` one."""
        if ends.run is None:
            return add(steps, step)
        assert step.to is not None, "a message goes to another node"
        way = (step.node, step.to)
        step.piece, step.behind = ends.run[1], last.get(way)
        last[way] = add(steps, step)
        return last[way]

    def _updates(self) -> Iterator[tuple[int, tuple[Run, ...]]]:
        """The layers that each instance updates: at once, or run by run as they are exchanged, then the others."""
        phase = self._phase
        for k, layers in enumerate(updated_layers(phase.instances, self._sizes.ties, phase.depth)):
            left = [n for first, last in layers for n in range(first, last + 1)]
            for run in self._runs if self._apart else ():
                own = [n for n in left if k in run.replicas and run.layers[0] <= n <= run.layers[1]]
                left = [n for n in left if n not in own]
                if own:
                    yield k, runs_of(own)
            if left:
                yield k, runs_of(left)

    def _met(
        self,
        k: int,
        layers: Sequence[Run],
        ready: Mapping[MessageEnds, int],
        averages: Mapping[RunKey, int],
    ) -> list[int]:
        """What brings an instance the averages of some layers."""
        met = [run for run in self._runs if k in run.replicas and _overlap(run.layers, layers)]
        return list(dict.fromkeys(ready.get(self._ends(run, k), averages[run.key]) for run in met))

    def _ends(self, run: ReplicatedLayers, k: int) -> MessageEnds:
        return MessageEnds(self._phase.instances[k].node, run.place, run.key if self._apart else None)

    def _messages(self) -> dict[MessageEnds, GradientMessage]:
        """What each node sends to each meeting place."""
        runs: dict[MessageEnds, list[ReplicatedLayers]] = {}
        senders: dict[MessageEnds, set[int]] = {}
        for run in self._runs:
            for k in run.replicas:
                ends = self._ends(run, k)
                if ends.node != ends.place:
                    held = runs.setdefault(ends, [])
                    held += [run] if run not in held else []
                    senders.setdefault(ends, set()).add(k)
        return {ends: GradientMessage(tuple(held), tuple(sorted(senders[ends]))) for ends, held in runs.items()}


class MessageEnds(NamedTuple):
    """A node that sends gradients and gets averages, where these meet, and which they are, if not all."""

    node: str
    place: str
    run: RunKey | None


class GradientMessage(NamedTuple):
    """The runs of layers whose gradients a node sends to a meeting place, and its instances that hold any of them."""

    runs: tuple[ReplicatedLayers, ...]
    senders: tuple[int, ...]

    @property
    def layers(self) -> tuple[Run, ...]:
        """The layers of the runs."""
        return tuple(run.layers for run in self.runs)


def replicated_ties(phase: Phase, sizes: Sizes, routes: Routes) -> list[ReplicatedLayers]:
    """Ties whose layers several instances hold, as layers of their own, and where their gradients meet."""
    found = []
    for number, layers in enumerate(sizes.ties, phase.depth + 1):
        replicas = tuple(k for k, instance in enumerate(phase.instances) if holds_tie(instance.layers, layers))
        if len(replicas) > 1:
            found.append(ReplicatedLayers((number, number), replicas, _meeting_place(phase, replicas, routes)))
    return found


def holds_tie(run: Run, layers: Sequence[int]) -> bool:
    """Whether one of the layers that share a weight is in a run."""
    return any(run[0] <= number <= run[1] for number in layers)


def held_numbers(run: Run, ties: Sequence[Sequence[int]], depth: int) -> list[int]:
    """The layers of a run, and the ties that it holds, numbered from ``depth`` + 1 on."""
    own = [number for number, layers in enumerate(ties, depth + 1) if holds_tie(run, layers)]
    return [*range(run[0], run[1] + 1), *own]


def updated_layers(
    instances: Sequence[Instance], ties: Sequence[Sequence[int]] = (), depth: int = 0
) -> list[tuple[Run, ...]]:
    """For each instance the layers that it updates: those that no earlier one on its node holds; and ties, likewise."""
    held: dict[str, set[int]] = {}
    found = []
    for instance in instances:
        before = held.setdefault(instance.node, set())
        own = [number for number in held_numbers(instance.layers, ties, depth) if number not in before]
        before.update(own)
        found.append(runs_of(own))
    return found


def _overlap(run: Run, others: Sequence[Run]) -> bool:
    return any(run[0] <= last and first <= run[1] for first, last in others)
