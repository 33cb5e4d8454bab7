"""The quality of predictions, as in Table I of PACT: MAE, MIL and ICP.

MAE is the mean absolute error of the expected change, MIL the mean length of the interval between the quantiles, ICP
the fraction of true changes within it (0.9 would be exact). Beside them: how often the true change up to an epoch is
above its robust estimate (0.05 would be exact).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from palmette.predict.examples import ChangeExample, RunExample
from palmette.predict.forecast import Forecast, Predictor


@dataclass(frozen=True)
class PredictionQuality:
    """Mean absolute error, mean interval length, interval coverage, totals exceeded, and over how many changes."""

    mae: float
    mil: float
    icp: float
    exceeded: float
    many: int


def evaluate_runs(predictor: Predictor, examples: Sequence[RunExample]) -> PredictionQuality:
    """How well a predictor predicts the next epochs."""
    return _quality([(predictor.predict_epochs(each.history, len(each.changes)), each.changes) for each in examples])


def evaluate_changes(predictor: Predictor, examples: Sequence[ChangeExample]) -> PredictionQuality:
    """How well a predictor predicts changes of setting."""
    return _quality([(predictor.predict_change(each.history, each.to), (each.change,)) for each in examples])


def _quality(pairs: Sequence[tuple[Forecast, tuple[float, ...]]]) -> PredictionQuality:
    rows = [
        row
        for each, truth in pairs
        for row in zip(each.expected, each.low, each.robust, each.total_robust, truth, accumulate(truth), strict=True)
    ]
    count = len(rows)
    if not count:
        return PredictionQuality(math.nan, math.nan, math.nan, math.nan, 0)
    return PredictionQuality(
        mae=sum(abs(true - expected) for expected, _, _, _, true, _ in rows) / count,
        mil=sum(high - low for _, low, high, _, _, _ in rows) / count,
        icp=sum(low <= true <= high for _, low, high, _, true, _ in rows) / count,
        exceeded=sum(total > robust for _, _, _, robust, _, total in rows) / count,
        many=count,
    )
