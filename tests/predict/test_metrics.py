"""MAE, MIL and ICP by hand."""

from __future__ import annotations

import math

import pytest

from palmette.predict.examples import ChangeExample, RunExample
from palmette.predict.forecast import Forecast, History, Setting
from palmette.predict.metrics import evaluate_changes, evaluate_runs

NOW = History(setting=Setting(samples=10, classes=2), losses=(1.0,))


class Stubborn:
    """Always says the same."""

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        totals = tuple(-0.05 * epoch for epoch in range(1, epochs + 1))
        return Forecast(expected=(-0.1,) * epochs, low=(-0.2,) * epochs, robust=(0.1,) * epochs, total_robust=totals)

    def predict_change(self, history: History, to: Setting) -> Forecast:
        return self.predict_epochs(history, 1)


def test_error_length_and_coverage_are_over_all_epochs() -> None:
    found = evaluate_runs(Stubborn(), [RunExample(NOW, (-0.1, -0.2, 0.2)), RunExample(NOW, (-0.4,))])

    assert found.mae == pytest.approx((0 + 0.1 + 0.3 + 0.3) / 4)
    assert found.mil == pytest.approx(0.3)
    assert found.icp == 0.5
    assert found.exceeded == 0.25
    assert found.many == 4


def test_changes_count_one_each() -> None:
    found = evaluate_changes(Stubborn(), [ChangeExample(NOW, NOW.setting, 0.1), ChangeExample(NOW, NOW.setting, 0.5)])

    assert (found.mae, found.icp, found.many) == (pytest.approx(0.4), 0.5, 2)


def test_of_nothing_nothing_is_known() -> None:
    assert math.isnan(evaluate_runs(Stubborn(), []).mae)
