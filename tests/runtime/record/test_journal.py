"""The trace has the shape of the evaluator's timeline; a run that goes on has each iteration once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palmette.errors import RunError
from palmette.runtime.record.journal import Journal, operations, span_s
from palmette.runtime.record.operations import OperationRecord
from tests.cost.small import instance, phase, source

TREE = phase(source("a", 2, "1"), instance("1", 1, 1, "a", "2"), instance("2", 2, 2, "b"))


def written(path: Path) -> list[int]:
    return [json.loads(line)["iteration"] for line in path.read_text().splitlines()]


def test_a_run_that_goes_on_has_each_iteration_once(tmp_path: Path) -> None:
    first = Journal(tmp_path, before=0)
    for number in range(5):
        first.metric(iteration=number, loss=1.0)
        first.trace([{"iteration": number}, {"iteration": number}])
    first.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 5, "lo')  # killed in the middle of a line
    again = Journal(tmp_path, before=3)
    again.metric(iteration=3, loss=2.0)
    again.close()
    assert written(tmp_path / "metrics.jsonl") == [0, 1, 2, 3]
    assert written(tmp_path / "trace.jsonl") == [0, 0, 1, 1, 2, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "trace.jsonl"]


def test_a_new_run_begins_with_empty_files(tmp_path: Path) -> None:
    for _ in range(2):
        journal = Journal(tmp_path, before=0)
        journal.metric(iteration=0)
        journal.close()
    assert written(tmp_path / "metrics.jsonl") == [0]


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=r"metrics\.jsonl: cannot be written: Is a directory"):
        Journal(tmp_path, before=0)


def test_a_receive_starts_when_its_message_was_sent() -> None:
    """The receiver began to wait at 3 s, long before the sender sent at 12 s; times are on the emulated clock."""
    records = {
        "a": [OperationRecord(0, "forward", 0, None, 10.0, 12.0, 0), OperationRecord(1, "send", 0, 7, 12.0, 14.0, 80)],
        "b": [
            OperationRecord(1, "receive", 0, 7, 3.0, 14.0, 80),
            OperationRecord(2, "forward", 1, None, 14.0, 16.0, 0),
        ],
    }
    made = operations(4, TREE, records, zero_s=8.0, dilation=2.0)
    assert [(line["node"], line["instance"], line["op"], line["start_s"], line["end_s"]) for line in made] == [
        ("a", "1", "forward", 1.0, 2.0),
        ("a", "1", "send", 2.0, 3.0),
        ("b", "1", "receive", 2.0, 3.0),
        ("b", "2", "forward", 3.0, 4.0),
    ]
    assert [line["bytes"] for line in made] == [0, 80, 80, 0]
    assert {line["iteration"] for line in made} == {4}
    assert span_s(made) == 3.0
