"""What decides about the best weights."""

from __future__ import annotations

import math

import pytest

from palmette.runtime.early_stopping import EarlyStopping, parse_early_stop


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("loss:3", EarlyStopping("loss", 3, highest=False)),
        ("accuracy:1", EarlyStopping("accuracy", 1, highest=True)),
        ("accuracy:1:min", EarlyStopping("accuracy", 1, highest=False)),
        ("f1:12:max", EarlyStopping("f1", 12, highest=True)),
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
    lowest, highest = EarlyStopping("loss", 1, highest=False), EarlyStopping("f1", 1, highest=True)
    assert lowest.is_better(1.0, None)
    assert lowest.is_better(1.0, 2.0)
    assert not lowest.is_better(2.0, 2.0)
    assert highest.is_better(2.0, 1.0)
    assert not highest.is_better(1.0, 2.0)
    assert not any(rule.is_better(math.nan, best) for rule in (lowest, highest) for best in (None, 1.0))
