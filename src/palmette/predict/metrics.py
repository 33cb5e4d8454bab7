"""How good predictions are, as in Table I of PACT: MAE, MIL and ICP.

MAE is the mean absolute error of the expected change, MIL the mean length of the interval between the quantiles, ICP
the fraction of true changes within it (0.9 would be exact). Beside them: how often the true change up to an epoch is
above its robust estimate (0.05 would be exact).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from palmette.predict.examples import Change, Run
from palmette.predict.forecast import Forecast, Predictor


@dataclass(frozen=True)
class Quality:
    """Mean absolute error, mean interval length, interval coverage, totals exceeded, and over how many changes."""

    mae: float
    mil: float
    icp: float
    exceeded: float
    many: int


def judged_runs(predictor: Predictor, examples: Sequence[Run]) -> Quality:
    """How well a predictor foretells the epochs to come."""
    return _quality([(predictor.run(each.past, len(each.changes)), each.changes) for each in examples])


def judged_changes(predictor: Predictor, examples: Sequence[Change]) -> Quality:
    """How well a predictor foretells changes of setting."""
    return _quality([(predictor.change(each.past, each.to), (each.change,)) for each in examples])


def _quality(pairs: Sequence[tuple[Forecast, tuple[float, ...]]]) -> Quality:
    rows = [
        row
        for told, truth in pairs
        for row in zip(told.expected, told.low, told.robust, told.total_robust, truth, accumulate(truth), strict=True)
    ]
    many = len(rows)
    if not many:
        return Quality(math.nan, math.nan, math.nan, math.nan, 0)
    return Quality(
        mae=sum(abs(true - expected) for expected, _, _, _, true, _ in rows) / many,
        mil=sum(high - low for _, low, high, _, _, _ in rows) / many,
        icp=sum(low <= true <= high for _, low, high, _, true, _ in rows) / many,
        exceeded=sum(total > robust for _, _, _, robust, _, total in rows) / many,
        many=many,
    )
