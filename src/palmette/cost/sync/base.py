"""What cost knows of a kind of ``sync``: the parts in which a phase is executed, and its price."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from palmette.cost.prices import Price
from palmette.cost.routes import Routes
from palmette.cost.simulate import PhaseSimulator
from palmette.cost.sizes import Sizes
from palmette.cost.steps import Iteration
from palmette.spec.plan import Phase

PartGraphs = Iterator[tuple[Phase, Iteration]]
"""Each part, the phase or a tree of it, and the graph that the event clock plays for it."""


@dataclass(frozen=True, kw_only=True)
class SyncCost:
    """The parts of a phase, and what an iteration and an epoch of it cost."""

    parts: Callable[[Phase, Sizes, Routes], PartGraphs]
    price: Callable[[PhaseSimulator, Phase], Price]
