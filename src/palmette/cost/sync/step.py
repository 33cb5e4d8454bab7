"""``step``: an iteration is the whole tree once, exchange of gradients included."""

from __future__ import annotations

import math

from palmette.cost.delivery import first_fractions, keeps_samples, later_fractions
from palmette.cost.operations import iteration
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.prices import EpochPrice, Price
from palmette.cost.routes import Routes
from palmette.cost.simulate import PhaseSimulator, Steady, timed_steps
from palmette.cost.sizes import Sizes
from palmette.cost.sync.base import PartGraphs, SyncCost
from palmette.spec.plan import Phase


def parts(phase: Phase, sizes: Sizes, routes: Routes, optimizer: OptimizerCost) -> PartGraphs:
    """One part: the whole phase, exchange of gradients included."""
    yield phase, iteration(phase, sizes, routes, optimizer=optimizer)


def price(simulator: PhaseSimulator, phase: Phase) -> Price:
    """The price of a phase whose replicas agree in every iteration."""
    many = math.ceil(sum(simulator.epoch_samples(phase).values()) / phase.batch)
    keeps = keeps_samples(phase)
    steady = simulator.play_step(phase, later_fractions(phase, simulator.cluster) if keeps else None)
    nodes = simulator.node_prices(phase, phase.nodes(), timed_steps(steady.made, steady.timing))
    energy_j = simulator.energy_j(nodes, steady.iteration_s)
    epoch_j = None if energy_j is None else many * energy_j
    epoch = EpochPrice(many * steady.iteration_s, epoch_j, [(nodes, many)])
    begin = simulator.play_step(phase, first_fractions(phase)) if keeps else steady
    return Price(
        steady.iteration_s,
        energy_j,
        nodes,
        epoch,
        epoch if begin.first_s == steady.iteration_s else _first_epoch(simulator, phase, begin, many),
        many,
        begin.first_s,
        begin.iteration_s,
        [(phase, steady.made, steady.timing)],
    )


def _first_epoch(simulator: PhaseSimulator, phase: Phase, steady: Steady, many: int) -> EpochPrice:
    """The epoch in which samples that are kept arrive, and whose first iteration waits for its own."""
    nodes = simulator.node_prices(phase, phase.nodes(), timed_steps(steady.made, steady.timing))
    time_s = steady.first_s + (many - 1) * steady.iteration_s
    found = EpochPrice(time_s, None, [(nodes, many)])
    found.energy_j = simulator.energy_j(found.nodes, time_s)
    return found


STEP = SyncCost(parts=parts, price=price)
