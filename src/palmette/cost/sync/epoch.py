"""``epoch``: an epoch lasts as long as the slowest tree with its shard, plus the exchange of weights."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.operations import exchange, exchanges_weights, iteration, trees
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.prices import EpochPrice, NodeParts, Price, added
from palmette.cost.routes import Routes
from palmette.cost.shards import described_samples, shard_steps, used_fraction
from palmette.cost.simulate import PhaseSimulator, steps_by_tree, timed_steps
from palmette.cost.sizes import Sizes
from palmette.cost.sync.base import PartGraphs, SyncCost, with_first_epoch
from palmette.spec.plan import Phase


def parts(phase: Phase, sizes: Sizes, routes: Routes, _optimizer: OptimizerCost) -> PartGraphs:
    """The steps of each tree, and the exchange of weights where an epoch ends with one."""
    for tree in trees(phase):
        yield tree, iteration(tree, sizes, routes)
    if exchanges_weights(phase):
        yield phase, exchange(phase, sizes)


def price(simulator: PhaseSimulator, phase: Phase) -> Price:
    """The price of a phase whose trees train apart and average their weights."""
    return with_first_epoch(simulator, phase, _price)


def _price(simulator: PhaseSimulator, phase: Phase, sent: Sequence[float]) -> Price:
    """The price if these fractions of the sources' samples are sent."""
    made = iteration(phase, simulator.sizes(phase.pruning), simulator.routes, sent)
    played = simulator.play(phase, made)
    timed = timed_steps(made, played)
    nodes = simulator.node_prices(phase, phase.nodes(), timed)
    parts: NodeParts = []
    slowest_s = 0.0
    needed = _steps(simulator, phase)
    for tree, own in steps_by_tree(phase, timed):
        steps = phase.local_epochs * max(needed[source.into] for source in tree.sources)
        slowest_s = max(slowest_s, steps * max(end for *_, end in own))
        parts.append((simulator.node_prices(phase, tree.nodes(), own), steps))
    lasts_s = slowest_s + _exchange_s(simulator, phase, parts)
    epoch = EpochPrice(lasts_s, simulator.energy_j(added(list(nodes), parts), lasts_s), parts)
    time_s, energy_j = played.total_s, simulator.energy_j(nodes, played.total_s)
    many = max(often for _, often in parts)
    return Price(time_s, energy_j, nodes, epoch, epoch, many, time_s, time_s, [(phase, made, played)])


def epoch_s(simulator: PhaseSimulator, phase: Phase, steps: Sequence[int]) -> float:
    """Seconds of an epoch in which each tree takes so many steps."""
    made = iteration(phase, simulator.sizes(phase.pruning), simulator.routes)
    timed = timed_steps(made, simulator.play(phase, made))
    ends = [max(end for *_, end in own) for _, own in steps_by_tree(phase, timed)]
    slowest_s = max(many * end for many, end in zip(steps, ends, strict=True))
    if not exchanges_weights(phase):
        return slowest_s
    return slowest_s + simulator.play(phase, exchange(phase, simulator.sizes(phase.pruning))).total_s


def _steps(simulator: PhaseSimulator, phase: Phase) -> dict[str, int]:
    """Steps that each instance which takes raw data needs to see its sources' shards once."""
    steps: dict[str, int] = {}
    for source, described in zip(phase.sources, described_samples(phase, simulator.cluster), strict=True):
        used = described * used_fraction(source.epoch_samples, described)
        steps[source.into] = max(steps.get(source.into, 0), shard_steps(used, source.samples))
    return steps


def _exchange_s(simulator: PhaseSimulator, phase: Phase, parts: NodeParts) -> float:
    """Seconds of the exchange of weights, if an epoch ends with one; it is added to the epoch's parts."""
    if not exchanges_weights(phase):
        return 0.0
    made = exchange(phase, simulator.sizes(phase.pruning))
    played = simulator.play(phase, made)
    parts.append((simulator.node_prices(phase, phase.nodes(), timed_steps(made, played)), 1))
    return played.total_s


EPOCH = SyncCost(parts=parts, price=price)
