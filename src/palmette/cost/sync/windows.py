"""What ``epoch`` and ``every`` have in common: trees take steps apart, and a window ends with an exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palmette.cost.operations import (
    exchange,
    exchange_apart,
    exchange_fragment,
    exchanges_weights,
    instances_by_tree,
    iteration,
    trees,
)
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.prices import NodeParts
from palmette.cost.routes import Routes
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.sizes import Sizes
from palmette.cost.steps import Iteration, TimedStep
from palmette.cost.sync.base import PartGraphs
from palmette.cost.sync.turns import fragment_runs
from palmette.spec.plan import Phase


class WindowPart(NamedTuple):
    """A part of a window: its seconds, and each node's share of it."""

    time_s: float
    nodes: NodeParts


def parts(phase: Phase, sizes: Sizes, routes: Routes, optimizer: OptimizerCost) -> PartGraphs:
    """The steps of each tree, and the exchange of weights where a window ends with one.

    Where only some trees take part in a window, that is in parts: the trees' pushes, the average, the trees' pulls.
    Where parts of the network have their turns, three parts for each of them follow.
    """
    for tree in trees(phase):
        yield tree, iteration(tree, sizes, routes, optimizer=optimizer)
    if phase.draws_clients:
        for graph in exchange_apart(phase, sizes, instances_by_tree(phase)):
            yield phase, graph
    elif exchanges_weights(phase):
        yield phase, exchange(phase, sizes)
        for run in fragment_runs(phase, sizes):
            for graph in exchange_fragment(phase, sizes, run):
                yield phase, graph


def local_steps(simulator: PhaseSimulator, phase: Phase, timed: list[TimedStep], steps: Sequence[float]) -> WindowPart:
    """So many steps of each tree, which last as long as those of the slowest; ``timed`` is one of all at once."""
    nodes: NodeParts = []
    slowest_s = 0.0
    for (tree, own), many in zip(_steps_by_tree(phase, timed), steps, strict=True):
        slowest_s = max(slowest_s, many * max(end for *_, end in own))
        nodes.append((simulator.node_prices(phase, tree.nodes(), own), many))
    return WindowPart(slowest_s, nodes)


def weight_exchange(simulator: PhaseSimulator, phase: Phase) -> WindowPart:
    """The exchange of weights, if windows end with one."""
    if not exchanges_weights(phase):
        return WindowPart(0.0, [])
    return _played(simulator, phase, exchange(phase, simulator.sizes(phase.pruning)))


def fragment_exchanges(simulator: PhaseSimulator, phase: Phase) -> list[WindowPart]:
    """The exchange of each part of the network that has its turn."""
    sizes = simulator.sizes(phase.pruning)
    return [_played(simulator, phase, exchange_fragment(phase, sizes, run)[1]) for run in fragment_runs(phase, sizes)]


def _played(simulator: PhaseSimulator, phase: Phase, made: Iteration) -> WindowPart:
    played = simulator.play(phase, made)
    nodes = simulator.node_prices(phase, phase.nodes(), timed_steps(made, played))
    return WindowPart(played.total_s, [(nodes, 1)])


def _steps_by_tree(phase: Phase, timed: list[TimedStep]) -> list[tuple[Phase, list[TimedStep]]]:
    """The trees of a phase, each with its operations."""
    parts: list[tuple[Phase, list[TimedStep]]] = [(tree, []) for tree in trees(phase)]
    own = {instance.id: rows for tree, rows in parts for instance in tree.instances}
    for row in timed:
        own[phase.instances[row[0].instance].id].append(row)
    return parts
