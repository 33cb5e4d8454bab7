"""The parts of a phase, each with its own programs. Pure, no torch.

A part is the whole phase, a tree of it, an exchange of weights, or an update (``cost/sync``). It has the same number on
all nodes, and channels that no other part uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palmette.cost.evaluate import Evaluator
from palmette.cost.steps import Iteration
from palmette.cost.sync.registry import SYNC_COSTS
from palmette.runtime.program import Channel, Program, compile_programs
from palmette.spec.plan import Phase


class PhasePart(NamedTuple):
    """A phase or a tree of it; the graph that the event clock simulates for it; and the programs of its nodes."""

    phase: Phase
    made: Iteration
    programs: Mapping[str, Program]

    @property
    def root(self) -> str:
        """The id of the root; of the first if there are several."""
        return next(instance.id for instance in self.phase.instances if instance.into is None)


def parts_of(phase: Phase, evaluator: Evaluator) -> list[PhasePart]:
    """The parts of a phase, in the order of their numbers."""
    made: list[PhasePart] = []
    channels = 0
    sizes, parts = evaluator.sizes(phase.pruning), SYNC_COSTS[phase.executed_sync].parts
    for each, graph in parts(phase, sizes, evaluator.routes, evaluator.optimizer):
        programs = compile_programs(each, graph, channels)
        made.append(PhasePart(each, graph, {node: program for node, program in programs.items() if program.operations}))
        channels += sum(step.to is not None for step in graph.steps)
    return made


def channels_of(parts: Sequence[PhasePart]) -> dict[int, Channel]:
    """All channels by number."""
    return {c.number: c for part in parts for program in part.programs.values() for c in program.channels}


def background_channels(parts: Sequence[PhasePart]) -> frozenset[int]:
    """The channels of samples that no call of their iteration waits for: they give way to all others."""
    return frozenset().union(*(each.background_channels for part in parts for each in part.programs.values()))


def leading_channels(parts: Sequence[PhasePart]) -> dict[int, int]:
    """For each channel whose messages leave behind those of another, the first of that row."""
    found: dict[int, int] = {}
    for program in (program for part in parts for program in part.programs.values()):
        sent = {each.number: each.channel.number for each in program.operations if each.op == "send" and each.channel}
        for each in sorted(program.operations, key=lambda operation: operation.number):
            if each.behind is not None:
                before = sent[each.behind]
                found[sent[each.number]] = found.get(before, before)
    return found
