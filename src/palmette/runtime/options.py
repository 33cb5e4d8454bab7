"""Training options: what a run needs besides the plan and the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from palmette.cost.memory import Optimizer
from palmette.errors import ArgumentFault, InputError, expected_name

Dtype = Literal["float32", "float64"]
LEARNING_RATES: dict[Optimizer, float] = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Optimizer, learning rate, seed, dtype, precision and frozen weights.

    ``freeze`` holds the user's patterns for layers or weights; on a worker, the exact names of weights.

    Raises:
        InputError: a value is out of range; names the field.
    """

    optimizer: Optimizer = "sgd"
    lr: float = 0.01
    seed: int = 0
    dtype: Dtype = "float32"
    mixed_precision: bool = False
    freeze: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise InputError(faults)

    def _faults(self) -> Iterator[ArgumentFault]:
        if self.optimizer not in LEARNING_RATES:
            expected = expected_name(self.optimizer, "optimizer", list(LEARNING_RATES))
            yield ArgumentFault("optimizer", self.optimizer, expected)
        if not _is_number(self.lr) or not 0 < self.lr < math.inf:
            yield ArgumentFault("lr", self.lr, "expected a number above 0")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            yield ArgumentFault("seed", self.seed, "expected a whole number, 0 or more")
        if self.dtype not in get_args(Dtype):
            yield ArgumentFault("dtype", self.dtype, f"expected {' or '.join(get_args(Dtype))}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
