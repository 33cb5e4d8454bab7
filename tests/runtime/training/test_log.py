"""What is said of a loss that is not finite does not lead to the same loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from palmette.runtime.options import Options
from palmette.runtime.training.log import _diverged


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lr": 0.5}, "--lr (it was 0.5), or --clip-norm 1"),
        ({"lr": 0.5, "clip_norm": 2.0}, "--lr (it was 0.5)"),
        ({"lr": 1e9}, "--lr (it was 1e+09)"),
        ({"lr": 0.5, "precision": "fp16"}, "--lr (it was 0.5), or --loss-scale (it was 1024), or --clip-norm 1"),
    ],
)
def test_an_option_that_helps_is_named(options: dict[str, Any], said: str) -> None:
    job: Any = SimpleNamespace(options=Options(**options))
    assert _diverged(7, float("nan"), job) == f"the loss is nan in iteration 7; start again with a smaller {said}"
    assert "--lr" not in _diverged(0, float("nan"), job)  # nothing has been learned yet
