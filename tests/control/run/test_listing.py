"""A run's folder as an entry of a list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palmette.control.run.listing import entry_of

LINES = [{"iteration": k, "epoch": 0, "loss": 2.0 - k, "samples": 4, "wall_s": 0.1} for k in range(2)]
EVALUATION = {"iteration": 1, "accuracy": 0.5, "loss": 0.75}


@pytest.mark.parametrize(
    ("text", "done", "loss"),
    [
        ("", 0, None),
        (LINES[:1], 1, 2.0),
        (LINES, 2, 1.0),
        ([*LINES, EVALUATION], 2, 0.75),
        ([{**LINES[0], "loss": float("nan")}], 1, None),
    ],
)
def test_how_far_a_run_is(tmp_path: Path, text: list[dict[str, float]], done: int, loss: float | None) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in text) + '{"iterat')
    found = entry_of("feedfeed", tmp_path, alive=True, since="")
    assert (found.iterations, found.loss) == (done, loss)
