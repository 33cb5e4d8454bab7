"""``step``: an iteration is the whole tree once, exchange of gradients included."""

from __future__ import annotations

import math

from palmette.cost.operations import iteration
from palmette.cost.prices import Price
from palmette.cost.routes import Routes
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.sizes import Sizes
from palmette.cost.sync.base import PartGraphs, SyncCost
from palmette.spec.plan import Phase


def parts(phase: Phase, sizes: Sizes, routes: Routes) -> PartGraphs:
    """One part: the whole phase, exchange of gradients included."""
    yield phase, iteration(phase, sizes, routes)


def price(simulator: PhaseSimulator, phase: Phase) -> Price:
    """The price of a phase whose replicas agree in every iteration."""
    made, played = simulator.play_step(phase)
    nodes = simulator.node_prices(phase, phase.nodes(), timed_steps(made, played))
    many = math.ceil(sum(simulator.epoch_samples(phase).values()) / phase.batch)
    time_s, energy_j = played.total_s, simulator.energy_j(nodes, played.total_s)
    epoch_j = None if energy_j is None else many * energy_j
    return Price(time_s, energy_j, many * time_s, epoch_j, nodes, [(nodes, many)], [(phase, made, played)])


STEP = SyncCost(parts=parts, price=price)
