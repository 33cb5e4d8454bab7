"""How to train: what a run needs to know beside the plan and the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from palmette.cost.memory import Optimizer

Dtype = Literal["float32", "float64"]
LEARNING_RATES: dict[Optimizer, float] = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Optimizer, learning rate, seed, numbers' type and what stays as it is.

    ``freeze`` is what a user asks for, patterns of layers or weights; for workers, the weights' very names.
    """

    optimizer: Optimizer = "sgd"
    lr: float = 0.01
    seed: int = 0
    dtype: Dtype = "float32"
    mixed_precision: bool = False
    freeze: tuple[str, ...] = ()
