"""Which metric of held-out data decides about the best weights, and when a run stops because it no longer improves."""

from __future__ import annotations

import math
from dataclasses import dataclass

BETTER = {"loss": "min", "accuracy": "max"}
"""The metrics of every training, and whether the least or the most is best; of a recipe's metric the user says it."""


@dataclass(frozen=True)
class EarlyStopping:
    """Stop after so many evaluations in a row in which a metric was not better than its best before."""

    metric: str
    patience: int
    highest: bool

    def is_better(self, value: float, best: float | None) -> bool:
        """Whether a value of the metric is better than the best so far; NaN never is."""
        if best is None:
            return not math.isnan(value)
        return value > best if self.highest else value < best


BY_LOSS = EarlyStopping("loss", patience=1, highest=False)
BY_ACCURACY = EarlyStopping("accuracy", patience=1, highest=True)


def parse_early_stop(text: object) -> EarlyStopping | None:
    """``loss:3``, ``accuracy:3``, or ``NAME:3:max`` and ``NAME:3:min`` for a recipe's metric; None for all else."""
    if not isinstance(text, str):
        return None
    metric, patience, best = [*text.split(":"), "", ""][:3] if text.count(":") <= 2 else ("", "", "")
    best = best or BETTER.get(metric, "")
    if not metric or not patience.isdecimal() or int(patience) == 0 or best not in ("min", "max"):
        return None
    return EarlyStopping(metric, int(patience), best == "max")
