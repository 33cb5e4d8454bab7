"""``epoch``: an epoch lasts as long as the slowest tree with its shard, plus the exchange of weights.

Where a part of the trees is drawn for each round, it is the mean over what may be drawn (``clients``).
"""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.delivery import Sent
from palmette.cost.operations import iteration, trees
from palmette.cost.prices import EpochPrice, Price, added
from palmette.cost.shards import described_samples, shard_steps, used_fraction
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.steps import TimedStep
from palmette.cost.sync.base import SyncCost, with_first_epoch
from palmette.cost.sync.clients import possible_draws, with_trees
from palmette.cost.sync.windows import WindowPart, local_steps, parts, weight_exchange
from palmette.spec.plan import Phase


def price(simulator: PhaseSimulator, phase: Phase) -> Price:
    """The price of a phase whose trees train apart on their shards and average their weights."""
    return with_first_epoch(simulator, phase, _price)


def _price(simulator: PhaseSimulator, phase: Phase, sent: Sent) -> Price:
    """The price if this much of samples and outputs is sent."""
    sizes, optimizer = simulator.sizes(phase.pruning), simulator.optimizer
    made = iteration(phase, sizes, simulator.routes, sent, optimizer=optimizer)
    played = simulator.play(phase, made)
    timed = timed_steps(made, played)
    nodes = simulator.node_prices(phase, phase.nodes(), timed)
    steps = _steps(simulator, phase)
    if phase.draws_clients:
        lasts_s, shares = _mean_round(simulator, phase, steps, sent)
    else:
        lasts_s, shares = _round(simulator, phase, timed, steps)
    epoch = EpochPrice(lasts_s, simulator.energy_j(added(list(nodes), shares), lasts_s), shares)
    time_s, energy_j = played.total_s, simulator.energy_j(nodes, played.total_s)
    return Price(time_s, energy_j, nodes, epoch, epoch, max(steps), time_s, time_s, [(phase, made, played)])


def epoch_s(simulator: PhaseSimulator, phase: Phase, steps: Sequence[int]) -> float:
    """Seconds of an epoch in which each tree takes so many steps; the mean, where it is drawn which take part."""
    if phase.draws_clients:
        return _mean_round(simulator, phase, steps, None).time_s
    return _round(simulator, phase, _timed(simulator, phase, None), steps).time_s


def _timed(simulator: PhaseSimulator, phase: Phase, sent: Sent | None) -> list[TimedStep]:
    """One step of all trees at once."""
    made = iteration(phase, simulator.sizes(phase.pruning), simulator.routes, sent, optimizer=simulator.optimizer)
    return timed_steps(made, simulator.play(phase, made))


def _round(simulator: PhaseSimulator, phase: Phase, timed: list[TimedStep], steps: Sequence[int]) -> WindowPart:
    """So many steps of each tree, and the exchange of weights."""
    local, ending = local_steps(simulator, phase, timed, steps), weight_exchange(simulator, phase)
    return WindowPart(local.time_s + ending.time_s, [*local.nodes, *ending.nodes])


def _mean_round(simulator: PhaseSimulator, phase: Phase, steps: Sequence[int], sent: Sent | None) -> WindowPart:
    """The mean over the sets of trees that may take part."""
    draws = possible_draws(phase)
    rounds = []
    for drawn in draws:
        part, sources = with_trees(phase, drawn)
        timed = _timed(simulator, part, None if sent is None else sent.of(sources))
        rounds.append(_round(simulator, part, timed, [steps[tree] for tree in drawn]))
    nodes = [(nodes, often / len(draws)) for each in rounds for nodes, often in each.nodes]
    return WindowPart(sum(each.time_s for each in rounds) / len(draws), nodes)


def _steps(simulator: PhaseSimulator, phase: Phase) -> list[int]:
    """Steps that each tree takes in an epoch: as many as its source needs that needs the most for its shard."""
    needed: dict[str, int] = {}
    for source, described in zip(phase.sources, described_samples(phase, simulator.cluster), strict=True):
        used = described * used_fraction(source.epoch_samples, described)
        needed[source.into] = max(needed.get(source.into, 0), shard_steps(used, source.samples))
    return [phase.local_epochs * max(needed[source.into] for source in tree.sources) for tree in trees(phase)]


EPOCH = SyncCost(parts=parts, price=price)
