"""The operations of a phase, part by part, by how its replicas agree.

step    one part: the whole phase, exchange of gradients included
epoch   a part for the steps of each tree, and one for the exchange of weights where an epoch ends with one
async   a part for each tree: pull, compute, push, and the server's update
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from palmette.cost.operations import exchange, exchanges_weights, iteration, trees, worker_step
from palmette.cost.routes import Routes
from palmette.cost.sizes import Sizes
from palmette.cost.steps import Iteration
from palmette.spec.plan import Phase
from palmette.spec.sync import Sync

PartGraphs = Iterator[tuple[Phase, Iteration]]


def part_graphs(phase: Phase, sizes: Sizes, routes: Routes) -> PartGraphs:
    """Each part, the phase or a tree of it, and the graph that the event clock plays for it."""
    return _PARTS[phase.sync](phase, sizes, routes)


def _step(phase: Phase, sizes: Sizes, routes: Routes) -> PartGraphs:
    yield phase, iteration(phase, sizes, routes)


def _epoch(phase: Phase, sizes: Sizes, routes: Routes) -> PartGraphs:
    for tree in trees(phase):
        yield tree, iteration(tree, sizes, routes)
    if exchanges_weights(phase):
        yield phase, exchange(phase, sizes)


def _async(phase: Phase, sizes: Sizes, _routes: Routes) -> PartGraphs:
    for tree in trees(phase):
        yield tree, worker_step(tree, sizes)


_PARTS: dict[Sync, Callable[[Phase, Sizes, Routes], PartGraphs]] = {"step": _step, "epoch": _epoch, "async": _async}
