"""Lines of a run's files: whole ones are read, the last may be in the making, wrong ones are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palmette.errors import InputError
from palmette.report.run_files import read_metrics, read_trace

LINE = {"iteration": 0, "node": "n", "instance": "i", "op": "send", "start_s": 0, "end_s": 1.5, "bytes": 7}


def written(path: Path, *lines: Any, end: str = "\n") -> Path:
    path.write_text("\n".join(json.dumps(line) if isinstance(line, dict) else line for line in lines) + end)
    return path


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert list(read_metrics(tmp_path / "metrics.jsonl")) == []
    assert list(read_trace(tmp_path / "trace.jsonl")) == []


def test_the_last_line_may_be_in_the_making(tmp_path: Path) -> None:
    path = written(tmp_path / "t", LINE, '{"iteration": 1, "no', end="")
    assert [done.size_bytes for done in read_trace(path)] == [7]


def test_metrics_of_both_kinds(tmp_path: Path) -> None:
    path = written(
        tmp_path / "m", {"iteration": 0, "loss": 2.0, "wall_s": 1.0}, {"iteration": 0, "accuracy": 0.5, "loss": 1.5}
    )
    trained, judged = read_metrics(path)
    assert (trained.loss, trained.accuracy, trained.wall_s) == (2.0, None, 1.0)
    assert (judged.loss, judged.accuracy) == (1.5, 0.5)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"op": "rest"}, "op: rest: expected one of"),
        ({"op": {}}, "op: {}: expected a name"),
        ({"end_s": -1.0}, "end_s: -1.0: expected at least start_s"),
        ({"start_s": "now"}, "start_s: now: expected a finite number"),
        ({"start_s": True}, "start_s: True: expected a finite number"),
        ({"iteration": -1}, "iteration: -1: expected 0 or more"),
        ({"node": 3}, "node: 3: expected a name"),
        ({"bytes": float("nan")}, "bytes: nan: expected a finite number"),
        ({"end_s": float("inf")}, "end_s: inf: expected a finite number"),
        ({"bytes": 10**400}, "bytes: 1000"),
        ({"iteration": 10**400}, "iteration: 1000"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = written(tmp_path / "t", LINE, LINE | change)
    with pytest.raises(InputError) as caught:
        list(read_trace(path))
    assert f"{path}: line 2: {told}" in str(caught.value)


@pytest.mark.parametrize("line", ["[]", "nonsense", '{"a": '])
def test_a_line_that_is_no_mapping(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match="expected a JSON mapping"):
        list(read_metrics(written(tmp_path / "m", line)))
