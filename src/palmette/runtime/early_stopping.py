"""Which metric of held-out data decides about the best weights, and when a run stops before its end.

loss:3    once it was not better than its best in three evaluations in a row   EarlyStopping
loss:0.3  once it is at most 0.3                                              StopAt
"""

from __future__ import annotations

import math
from dataclasses import dataclass

BETTER = {"loss": "min", "accuracy": "max"}
"""The metrics of every training, and whether the least or the most is best; of a recipe's metric the user says it."""


@dataclass(frozen=True, kw_only=True)
class BestBy:
    """A metric whose highest or lowest value is best."""

    metric: str
    highest: bool

    def is_better(self, value: float, best: float | None) -> bool:
        """Whether a value of the metric is better than the best so far; NaN never is."""
        if best is None:
            return not math.isnan(value)
        return value > best if self.highest else value < best


@dataclass(frozen=True, kw_only=True)
class EarlyStopping(BestBy):
    """Stop after so many evaluations in a row in which a metric was not better than its best before."""

    patience: int


@dataclass(frozen=True, kw_only=True)
class StopAt(BestBy):
    """Stop once a metric has a value that is as good as this one."""

    value: float

    def is_reached(self, value: float) -> bool:
        """Whether a value of the metric is as good."""
        return value >= self.value if self.highest else value <= self.value


BY_LOSS = BestBy(metric="loss", highest=False)
BY_ACCURACY = BestBy(metric="accuracy", highest=True)


def parse_early_stop(text: object) -> EarlyStopping | None:
    """``loss:3``, ``accuracy:3``, or ``NAME:3:max`` and ``NAME:3:min`` for a recipe's metric; None for all else."""
    metric, patience, best = _parts(text)
    if not metric or not patience.isdecimal() or int(patience) == 0:
        return None
    return EarlyStopping(metric=metric, patience=int(patience), highest=best == "max")


def parse_stop_at(text: object) -> StopAt | None:
    """``loss:0.3``, ``accuracy:0.9``, or ``NAME:0.8:max`` and ``NAME:0.8:min``; None for all else.

    An accuracy is a part, not a percentage: none is above 1, and a run for 90 would go on to its end.
    """
    metric, written, best = _parts(text)
    try:
        value = float(written)
    except ValueError:
        return None
    if not metric or not math.isfinite(value) or (metric == "accuracy" and value > 1):
        return None
    return StopAt(metric=metric, value=value, highest=best == "max")


def _parts(text: object) -> tuple[str, str, str]:
    """A metric, a number, and whether the ``min`` or the ``max`` is best; empty where it is none of these."""
    if not isinstance(text, str) or text.count(":") > 2:
        return "", "", ""
    metric, number, best = [*text.split(":"), "", ""][:3]
    best = best or BETTER.get(metric, "")
    return (metric, number, best) if best in ("min", "max") else ("", "", "")
