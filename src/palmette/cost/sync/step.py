"""``step``: an iteration is the whole tree once, exchange of gradients included."""

from __future__ import annotations

import math

from palmette.cost.accumulation import with_update
from palmette.cost.operations import iteration, partly_sent, update
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.prices import EpochPrice, NodePrice, Price, added
from palmette.cost.routes import Routes
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.sizes import Sizes
from palmette.cost.steady import Steady
from palmette.cost.steps import Iteration
from palmette.cost.sync.base import PartGraphs, SyncCost, first_differs, sent_later
from palmette.spec.plan import Phase


def parts(phase: Phase, sizes: Sizes, routes: Routes, optimizer: OptimizerCost) -> PartGraphs:
    """The whole phase, exchange of gradients included; that is a part of its own where gradients accumulate."""
    yield phase, iteration(phase, sizes, routes, optimizer=optimizer)
    apart = update(phase, sizes, routes, optimizer)
    if apart is not None:
        yield phase, apart


def price(simulator: PhaseSimulator, phase: Phase) -> Price:
    """The price of a phase whose replicas agree in every iteration."""
    many = math.ceil(sum(simulator.epoch_samples(phase).values()) / phase.batch)
    keeps, whole = first_differs(phase), simulator.whole_step(phase)
    later = sent_later(phase, simulator.cluster) if keeps else None
    steady, nodes = _played(simulator, phase, partly_sent(whole, phase, simulator.sizes(phase.pruning), later))
    energy_j = simulator.energy_j(nodes, steady.iteration_s)
    epoch_j = None if energy_j is None else many * energy_j
    epoch = EpochPrice(many * steady.iteration_s, epoch_j, [(nodes, many)])
    begin, begin_nodes = _played(simulator, phase, whole) if keeps else (steady, nodes)
    return Price(
        steady.iteration_s,
        energy_j,
        nodes,
        epoch,
        epoch
        if begin is steady and begin.ends_s == (steady.iteration_s,)
        else _first_epoch(simulator, begin, begin_nodes, many),
        many,
        begin.first_s(),
        begin.iteration_s,
        [(phase, steady.made, steady.timing)],
    )


def _played(simulator: PhaseSimulator, phase: Phase, wanted: Iteration) -> tuple[Steady, dict[str, NodePrice]]:
    """A steady iteration and each node's part of it, with their share of an update that is apart."""
    steady = simulator.play_step(phase, wanted)
    nodes = simulator.node_prices(phase, phase.nodes(), timed_steps(steady.made, steady.timing), steady.iteration_s)
    made = update(phase, simulator.sizes(phase.pruning), simulator.routes, simulator.optimizer)
    if made is None:
        return steady, nodes
    played, share = simulator.play(phase, made), 1 / simulator.optimizer.accumulate
    own = simulator.node_prices(phase, phase.nodes(), timed_steps(made, played))
    whole = with_update(steady.made, steady.timing, made, played)
    update_s = share * played.total_s
    ends_s = tuple(end_s + often * update_s for often, end_s in enumerate(steady.ends_s, 1))
    found = Steady(*whole, steady.iteration_s + update_s, ends_s)
    return found, added(list(nodes), [(nodes, 1.0), (own, share)])


def _first_epoch(simulator: PhaseSimulator, steady: Steady, nodes: dict[str, NodePrice], many: int) -> EpochPrice:
    """The epoch in which samples or outputs that are kept arrive, and whose first iteration waits for its own."""
    time_s = steady.first_s(many)
    found = EpochPrice(time_s, None, [(nodes, many)])
    found.energy_j = simulator.energy_j(found.nodes, time_s)
    return found


STEP = SyncCost(parts=parts, price=price)
