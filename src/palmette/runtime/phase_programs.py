"""The parts of a phase, each with its own programs. Pure, no torch.

A part is the whole phase, a tree of it, or an exchange of weights (``cost/sync``). A part has the same number on all
nodes, and channels that no other part uses.
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
    for each, graph in SYNC_COSTS[phase.sync].parts(phase, evaluator.sizes(phase.pruning), evaluator.routes):
        programs = compile_programs(each, graph, channels)
        made.append(PhasePart(each, graph, {node: program for node, program in programs.items() if program.operations}))
        channels += sum(step.to is not None for step in graph.steps)
    return made


def channels_of(parts: Sequence[PhasePart]) -> dict[int, Channel]:
    """All channels by number."""
    return {c.number: c for part in parts for program in part.programs.values() for c in program.channels}
