"""``async``: an iteration is one worker's step; its mean time is 1 / Σ of the workers' rates.

Workers share links, and the server's processor: they are played together, each over and over.
"""

from __future__ import annotations

import math

from palmette.cost.delivery import Sent
from palmette.cost.operations import sources_by_tree, trees, worker_step
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.prices import EpochPrice, NodeParts, Price, added
from palmette.cost.routes import Routes
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.sizes import Sizes
from palmette.cost.sync.base import PartGraphs, SyncCost, with_first_epoch
from palmette.spec.plan import Phase


def parts(phase: Phase, sizes: Sizes, _routes: Routes, _optimizer: OptimizerCost) -> PartGraphs:
    """The step of each tree: pull, compute, push, and the server's update."""
    for tree in trees(phase):
        yield tree, worker_step(tree, sizes)


def price(simulator: PhaseSimulator, phase: Phase) -> Price:
    """The price of a phase whose trees pull weights from a parameter server and push gradients to it."""
    return with_first_epoch(simulator, phase, _price)


def _price(simulator: PhaseSimulator, phase: Phase, sent: Sent) -> Price:
    """The price if this much of samples and outputs is sent."""
    sizes = simulator.sizes(phase.pruning)
    made = [
        (tree, worker_step(tree, sizes, sent.of(numbers)))
        for tree, numbers in zip(trees(phase), sources_by_tree(phase), strict=True)
    ]
    loops = simulator.play_together(made)
    workers = [(*each, loop.timing) for each, loop in zip(made, loops, strict=True)]
    rates = [1 / loop.mean_s if loop.mean_s else math.inf for loop in loops]
    time_s = 1 / sum(rates)
    parts: NodeParts = []
    for (tree, steps, played), rate in zip(workers, rates, strict=True):
        often = rate * time_s if time_s else 1 / len(workers)
        parts.append((simulator.node_prices(tree, tree.nodes(), timed_steps(steps, played)), often))
    nodes = added(phase.nodes(), parts)
    energy_j = simulator.energy_j(nodes, time_s)
    samples_per_step = sum(t.batch * r for (t, _, _), r in zip(workers, rates, strict=True)) / sum(rates)
    many = math.ceil(sum(simulator.epoch_samples(phase).values()) / samples_per_step) if time_s else 0
    epoch = EpochPrice(many * time_s, None if energy_j is None else many * energy_j, [(nodes, many)])
    return Price(time_s, energy_j, nodes, epoch, epoch, many, time_s, time_s, workers)


ASYNC = SyncCost(parts=parts, price=price)
