"""What the workers of a phase do, part by part. Pure, no torch.

    step    one part: the whole phase, exchange of gradients included
    epoch   a part for the steps of each tree, and one for the exchange of weights where an epoch ends with one
    async   a part for each tree: pull, compute, push, and the server's update

Every part has programs of its own, by the same number on all nodes, over channels that no other part uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import exchange, exchanges_weights, iteration, trees, worker_step
from palmette.cost.steps import Iteration
from palmette.runtime.program import Channel, Program, compiled
from palmette.spec.plan import Phase


class Part(NamedTuple):
    """A phase, or a tree of it; the graph that the clock plays for it; and the programs of those who take part."""

    phase: Phase
    made: Iteration
    programs: Mapping[str, Program]

    @property
    def root(self) -> str:
        """The id of the tree's root; of the first, where there are several."""
        return next(instance.id for instance in self.phase.instances if instance.into is None)


def parts_of(phase: Phase, evaluator: Evaluator) -> list[Part]:
    """The parts of a phase, in the order of their numbers."""
    made: list[Part] = []
    channels = 0
    for each, graph in _graphs(phase, evaluator):
        programs = compiled(each, graph, channels)
        made.append(Part(each, graph, {node: program for node, program in programs.items() if program.operations}))
        channels += sum(step.to is not None for step in graph.steps)
    return made


def _graphs(phase: Phase, evaluator: Evaluator) -> Iterator[tuple[Phase, Iteration]]:
    sizes = evaluator.sizes(phase.pruning)
    match phase.sync:
        case "step":
            yield phase, iteration(phase, sizes, evaluator.routes)
        case "epoch":
            for tree in trees(phase):
                yield tree, iteration(tree, sizes, evaluator.routes)
            if exchanges_weights(phase):
                yield phase, exchange(phase, sizes)
        case _:
            for tree in trees(phase):
                yield tree, worker_step(tree, sizes)


def channels_of(parts: Sequence[Part]) -> dict[int, Channel]:
    """All channels by their numbers."""
    return {c.number: c for part in parts for program in part.programs.values() for c in program.channels}
