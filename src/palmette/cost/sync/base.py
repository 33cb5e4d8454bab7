"""What a pricing is: it says what an iteration and an epoch of a phase cost under one kind of ``sync``."""

from __future__ import annotations

from collections.abc import Callable

from palmette.cost.prices import Price
from palmette.cost.simulate import PhaseSimulator
from palmette.spec.plan import Phase

Pricing = Callable[[PhaseSimulator, Phase], Price]
