"""``every``: a window lasts as long as so many steps of the slowest tree, plus the exchange of weights.

An iteration is the mean of a window's. The last window of an epoch may be shorter than the others. Where parts of the
network have their turns, an exchange takes only what is left of it after the steps that go on meanwhile, and an
iteration is the mean of an epoch's. Messages of these steps, which only trees on several nodes have, are taken not to
be in the way of the exchange.
"""

from __future__ import annotations

import math

from palmette.cost.delivery import Sent
from palmette.cost.operations import iteration, trees
from palmette.cost.prices import EpochPrice, NodeParts, Price, added
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.sync.base import SyncCost, with_first_epoch
from palmette.cost.sync.turns import turns_of
from palmette.cost.sync.windows import fragment_exchanges, local_steps, parts, weight_exchange
from palmette.spec.plan import Phase


def price(simulator: PhaseSimulator, phase: Phase) -> Price:
    """The price of a phase whose trees train apart for a few steps and average their weights."""
    return with_first_epoch(simulator, phase, _price)


def _price(simulator: PhaseSimulator, phase: Phase, sent: Sent) -> Price:
    """The price if this much of samples and outputs is sent."""
    assert phase.every is not None, "a phase under every says how many steps"
    sizes, optimizer = simulator.sizes(phase.pruning), simulator.optimizer
    made = iteration(phase, sizes, simulator.routes, sent, optimizer=optimizer)
    played = simulator.play(phase, made)
    many = math.ceil(sum(simulator.epoch_samples(phase).values()) / phase.batch)
    window = min(phase.every, many)
    local = local_steps(simulator, phase, timed_steps(made, played), [1] * len(trees(phase)))
    ending, fragments = weight_exchange(simulator, phase), fragment_exchanges(simulator, phase)
    turns = turns_of(phase, many)
    exchanges = 1 if turns else math.ceil(many / window)
    lasts_s = many * local.time_s + exchanges * ending.time_s
    lasts_s += sum(max(0.0, fragments[j].time_s - (put - taken) * local.time_s) for j, taken, put in turns)
    whole: NodeParts = [(nodes, many) for nodes, _ in local.nodes]
    whole += [(nodes, exchanges) for nodes, _ in ending.nodes]
    whole += [
        (nodes, sum(turn.fragment == j for turn in turns))
        for j, each in enumerate(fragments)
        for nodes, _ in each.nodes
    ]
    if turns:
        shares, time_s = [(nodes, often / many) for nodes, often in whole], lasts_s / many
    else:
        shares = [*local.nodes, *((nodes, 1 / window) for nodes, _ in ending.nodes)]
        time_s = local.time_s + ending.time_s / window
    nodes = added(phase.nodes(), shares)
    epoch = EpochPrice(lasts_s, simulator.energy_j(added(phase.nodes(), whole), lasts_s), whole)
    energy_j = simulator.energy_j(nodes, time_s)
    return Price(time_s, energy_j, nodes, epoch, epoch, many, time_s, time_s, [(phase, made, played)])


EVERY = SyncCost(parts=parts, price=price)
