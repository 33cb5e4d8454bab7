"""What cost knows of a kind of ``sync``: the parts in which a phase is executed, and its price."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from palmette.cost.delivery import Sent, first_fractions, keeps_samples, later_fractions
from palmette.cost.kept_outputs import keeps_outputs, known_fractions
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.prices import Price
from palmette.cost.routes import Routes
from palmette.cost.simulate import PhaseSimulator
from palmette.cost.sizes import Sizes
from palmette.cost.steps import Iteration
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase

PartGraphs = Iterator[tuple[Phase, Iteration]]
"""Each part, the phase or a tree of it, and the graph that the event clock plays for it."""


@dataclass(frozen=True, kw_only=True)
class SyncCost:
    """The parts of a phase, and what an iteration and an epoch of it cost."""

    parts: Callable[[Phase, Sizes, Routes, OptimizerCost], PartGraphs]
    """Takes the phase, its sizes, routes, and what is exchanged for the optimizer."""
    price: Callable[[PhaseSimulator, Phase], Price]


def first_differs(phase: Phase) -> bool:
    """Whether more is sent in the first epoch than later: samples or outputs that are kept."""
    return keeps_samples(phase) or keeps_outputs(phase)


def sent_later(phase: Phase, cluster: Cluster) -> Sent:
    """What has to be sent in a later epoch."""
    known = known_fractions(phase, cluster) if keeps_outputs(phase) else {}
    return Sent(later_fractions(phase, cluster), known)


def with_first_epoch(
    simulator: PhaseSimulator, phase: Phase, price: Callable[[PhaseSimulator, Phase, Sent], Price]
) -> Price:
    """The price of a later epoch, and of the first where samples or outputs that are kept arrive in it.

    ``price`` takes what of samples and outputs is sent.
    """
    later = price(simulator, phase, sent_later(phase, simulator.cluster))
    if not first_differs(phase):
        return later
    first = price(simulator, phase, Sent(first_fractions(phase)))
    first_s = first.iteration_s
    return replace(later, first_epoch=first.epoch, first_iteration_s=first_s, first_epoch_iteration_s=first_s)
