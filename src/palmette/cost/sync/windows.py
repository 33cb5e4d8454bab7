"""What ``epoch`` and ``every`` have in common: trees take steps apart, and a window ends with an exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palmette.cost.operations import exchange, exchanges_weights, iteration, trees
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.prices import NodeParts
from palmette.cost.routes import Routes
from palmette.cost.simulate import PhaseSimulator, steps_by_tree, timed_steps
from palmette.cost.sizes import Sizes
from palmette.cost.steps import TimedStep
from palmette.cost.sync.base import PartGraphs
from palmette.spec.plan import Phase


class WindowPart(NamedTuple):
    """A part of a window: its seconds, and each node's share of it."""

    time_s: float
    nodes: NodeParts


def parts(phase: Phase, sizes: Sizes, routes: Routes, optimizer: OptimizerCost) -> PartGraphs:
    """The steps of each tree, and the exchange of weights where a window ends with one."""
    for tree in trees(phase):
        yield tree, iteration(tree, sizes, routes, optimizer=optimizer)
    if exchanges_weights(phase):
        yield phase, exchange(phase, sizes)


def local_steps(simulator: PhaseSimulator, phase: Phase, timed: list[TimedStep], steps: Sequence[float]) -> WindowPart:
    """So many steps of each tree, which last as long as those of the slowest; ``timed`` is one of all at once."""
    nodes: NodeParts = []
    slowest_s = 0.0
    for (tree, own), many in zip(steps_by_tree(phase, timed), steps, strict=True):
        slowest_s = max(slowest_s, many * max(end for *_, end in own))
        nodes.append((simulator.node_prices(phase, tree.nodes(), own), many))
    return WindowPart(slowest_s, nodes)


def weight_exchange(simulator: PhaseSimulator, phase: Phase) -> WindowPart:
    """The exchange of weights, if windows end with one."""
    if not exchanges_weights(phase):
        return WindowPart(0.0, [])
    made = exchange(phase, simulator.sizes(phase.pruning))
    played = simulator.play(phase, made)
    nodes = simulator.node_prices(phase, phase.nodes(), timed_steps(made, played))
    return WindowPart(played.total_s, [(nodes, 1)])
