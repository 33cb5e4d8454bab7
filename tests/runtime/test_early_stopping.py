"""What decides about the best weights, and when a run stops before its end."""

from __future__ import annotations

import math

import pytest

from palmette.runtime.early_stopping import BestBy, EarlyStopping, StopAt, parse_early_stop, parse_stop_at


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("loss:3", EarlyStopping(metric="loss", patience=3, highest=False)),
        ("accuracy:1", EarlyStopping(metric="accuracy", patience=1, highest=True)),
        ("accuracy:1:min", EarlyStopping(metric="accuracy", patience=1, highest=False)),
        ("f1:12:max", EarlyStopping(metric="f1", patience=12, highest=True)),
    ],
)
def test_a_rule_is_read(text: str, rule: EarlyStopping) -> None:
    assert parse_early_stop(text) == rule


@pytest.mark.parametrize(
    "text", ["", "loss", "loss:", "loss:0", "loss:-1", "loss:2.5", "f1:3", ":3", "a:3:most", "a:3:max:b", 3, None]
)
def test_anything_else_is_none(text: object) -> None:
    assert parse_early_stop(text) is None


def test_the_highest_or_the_lowest_is_best_and_nan_never() -> None:
    lowest, highest = BestBy(metric="loss", highest=False), BestBy(metric="f1", highest=True)
    assert lowest.is_better(1.0, None)
    assert lowest.is_better(1.0, 2.0)
    assert not lowest.is_better(2.0, 2.0)
    assert highest.is_better(2.0, 1.0)
    assert not highest.is_better(1.0, 2.0)
    assert not any(rule.is_better(math.nan, best) for rule in (lowest, highest) for best in (None, 1.0))


@pytest.mark.parametrize(
    ("text", "rule", "enough", "more"),
    [
        ("loss:0.3", StopAt(metric="loss", value=0.3, highest=False), 0.3, 0.31),
        ("accuracy:1", StopAt(metric="accuracy", value=1.0, highest=True), 1.0, 0.99),
        ("f1:-2e-1:max", StopAt(metric="f1", value=-0.2, highest=True), 0.0, -0.3),
        ("error:3:min", StopAt(metric="error", value=3.0, highest=False), 2.0, math.nan),
    ],
)
def test_a_value_to_stop_at_is_read(text: str, rule: StopAt, enough: float, more: float) -> None:
    assert parse_stop_at(text) == rule
    assert rule.is_reached(enough)
    assert not rule.is_reached(more)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "loss",
        "loss:",
        "loss:low",
        "loss:nan",
        "loss:1e999",
        "f1:3",
        ":3",
        "a:3:most",
        "a:3:max:b",
        "accuracy:90",
        3,
        None,
    ],
)
def test_no_other_value_to_stop_at_is_read(text: object) -> None:
    assert parse_stop_at(text) is None
