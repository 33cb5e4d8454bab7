"""Options of a training refuse what no training can use, whoever makes them."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.errors import InputError
from palmette.runtime.options import Options


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"lr": -1}, "lr: -1: expected a number above 0"),
        ({"lr": float("nan")}, "lr: nan: expected a number above 0"),
        ({"lr": "fast"}, "lr: fast: expected a number above 0"),
        ({"seed": -1}, "seed: -1: expected a whole number from 0 to 9223372036854775807"),
        ({"seed": 10**23}, f"seed: {10**23}: expected a whole number from 0 to 9223372036854775807"),
        ({"seed": True}, "seed: True: expected a whole number from 0 to 9223372036854775807"),
        ({"dtype": "int3"}, "dtype: int3: expected float32 or float64"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_field(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError) as refused:
        Options(**given)
    assert str(refused.value) == fault


def test_an_unknown_optimizer_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="adamw"):
        Options(optimizer="adamww")


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InputError) as refused:
        Options(lr=0, dtype="int3")  # type: ignore[arg-type]
    assert [fault.field for fault in refused.value.faults] == ["lr", "dtype"]
