"""A trace has all operations of some iterations, and sums of all others: together they are what happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palmette.runtime.record.journal import Journal
from palmette.runtime.record.trace_sums import EVERY, FIRST, PHASE_FIRST


def operations(iteration: int) -> list[dict[str, Any]]:
    common = {"iteration": iteration, "instance": "I", "node": "phone"}
    return [
        common | {"op": "forward", "start_s": 1.0 * iteration, "end_s": iteration + 0.5, "bytes": 0},
        common | {"op": "send", "start_s": iteration + 0.5, "end_s": iteration + 0.75, "bytes": 40},
    ]


def traced(folder: Path, iterations: int, *, full: bool = False, phase_at: int = -1) -> list[dict[str, Any]]:
    journal = Journal(folder, before=0, full_trace=full)
    for number in range(iterations):
        if number == phase_at:
            journal.begin_phase()
        journal.trace(operations(number))
    journal.close()
    return [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]


def test_nothing_is_missing_from_the_sums(tmp_path: Path) -> None:
    lines = traced(tmp_path, 3 * EVERY)
    whole = [line for line in lines if line["op"] != "sum"]
    sums = [line for line in lines if line["op"] == "sum"]
    assert sorted({line["iteration"] for line in whole}) == [*range(FIRST), EVERY, 2 * EVERY]
    assert [(line["first_iteration"], line["iteration"]) for line in sums] == [
        (FIRST, EVERY - 1),
        (EVERY + 1, 2 * EVERY - 1),
        (2 * EVERY + 1, 3 * EVERY - 1),
    ]
    sent = sum(line["bytes"] for line in whole) + sum(line["nodes"]["phone"]["send"]["bytes"] for line in sums)
    assert sent == 40 * 3 * EVERY
    assert sum(line["nodes"]["phone"]["forward"]["count"] for line in sums) == 3 * EVERY - FIRST - 2
    assert sums[0]["nodes"]["phone"]["forward"]["seconds"] == 0.5 * (EVERY - FIRST)
    assert (sums[0]["start_s"], sums[0]["end_s"]) == (FIRST, EVERY - 0.25)


def test_a_phase_begins_with_whole_iterations(tmp_path: Path) -> None:
    lines = traced(tmp_path, 500, phase_at=300)
    later = {line["iteration"] for line in lines if line["op"] != "sum" and line["iteration"] >= FIRST}
    assert later == set(range(300, 300 + PHASE_FIRST - 1))


def test_a_full_trace_has_everything(tmp_path: Path) -> None:
    assert traced(tmp_path, 200, full=True) == [line for number in range(200) for line in operations(number)]


def test_a_resumed_run_keeps_the_sums_before(tmp_path: Path) -> None:
    journal = Journal(tmp_path, before=0)
    for number in range(300):
        journal.trace(operations(number))
        if number == 199:
            journal.flush()  # a checkpoint
    journal.close()
    Journal(tmp_path, before=200).close()
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [(line["first_iteration"], line["iteration"]) for line in lines if line["op"] == "sum"] == [(FIRST, 199)]
