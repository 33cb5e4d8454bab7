"""``every``: a window lasts as long as so many steps of the slowest tree, plus the exchange of weights.

An iteration is the mean of a window's. The last window of an epoch may be shorter than the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from palmette.cost.operations import iteration, trees
from palmette.cost.prices import EpochPrice, NodeParts, Price, added
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.sync.base import SyncCost, with_first_epoch
from palmette.cost.sync.windows import local_steps, parts, weight_exchange
from palmette.spec.plan import Phase


def price(simulator: PhaseSimulator, phase: Phase) -> Price:
    """The price of a phase whose trees train apart for a few steps and average their weights."""
    return with_first_epoch(simulator, phase, _price)


def _price(simulator: PhaseSimulator, phase: Phase, sent: Sequence[float]) -> Price:
    """The price if these fractions of the sources' samples are sent."""
    assert phase.every is not None, "a phase under every says how many steps"
    sizes, optimizer = simulator.sizes(phase.pruning), simulator.optimizer
    made = iteration(phase, sizes, simulator.routes, sent, optimizer=optimizer)
    played = simulator.play(phase, made)
    many = math.ceil(sum(simulator.epoch_samples(phase).values()) / phase.batch)
    window = min(phase.every, many)
    local = local_steps(simulator, phase, timed_steps(made, played), [1] * len(trees(phase)))
    ending = weight_exchange(simulator, phase)
    exchanges = math.ceil(many / window)
    shares = [*local.nodes, *((nodes, 1 / window) for nodes, _ in ending.nodes)]
    nodes, time_s = added(phase.nodes(), shares), local.time_s + ending.time_s / window
    lasts_s = many * local.time_s + exchanges * ending.time_s
    whole: NodeParts = [(nodes, many) for nodes, _ in local.nodes]
    whole += [(nodes, exchanges) for nodes, _ in ending.nodes]
    epoch = EpochPrice(lasts_s, simulator.energy_j(added(phase.nodes(), whole), lasts_s), whole)
    energy_j = simulator.energy_j(nodes, time_s)
    return Price(time_s, energy_j, nodes, epoch, epoch, many, time_s, time_s, [(phase, made, played)])


EVERY = SyncCost(parts=parts, price=price)
