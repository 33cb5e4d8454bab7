"""A run followed while it goes on: half lines, files that come late or begin anew, its end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.report.live_run import FileTail, LiveRun
from tests.report.folders import run_folder, tree


def running(folder: Path, iterations: int) -> Path:
    """A folder as it is while a run goes on."""
    shutil.rmtree(folder, ignore_errors=True)
    return run_folder(
        folder, tree(), iterations=iterations, ended="running", iteration_s=None, energy_j=None, accuracy=None
    )


def test_a_tail_gives_whole_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "f"
    tail = FileTail(path)
    assert tail.lines() == []
    path.write_text("one\ntw")
    assert tail.lines() == ["one"]
    assert tail.lines() == []
    with path.open("a") as file:
        file.write("o\nthree\n")
    assert tail.lines() == ["two", "three"]
    assert not tail.replaced()
    path.write_text("new\n")
    assert tail.replaced()


def test_a_run_grows(tmp_path: Path) -> None:
    folder = running(tmp_path / "run", 0)
    for name in ("metrics.jsonl", "trace.jsonl"):
        (folder / name).unlink()
    follower = LiveRun(folder)
    view = follower.view()
    assert (view["entries"][0]["run"]["iterations"], view["live"]["loss"]) == (0, None)
    whole = running(tmp_path / "whole", 3)
    for name in ("metrics.jsonl", "trace.jsonl"):
        text = (whole / name).read_text()
        with (folder / name).open("a") as file:
            file.write(text[: len(text) // 2])
        follower.update()
        with (folder / name).open("a") as file:
            file.write(text[len(text) // 2 :])
    run = follower.view()["entries"][0]["run"]
    assert (run["iterations"], run["shown"]) == (3, 2)
    assert [row[3] for row in run["loss"]] == [0, 1, 2]
    assert run["timeline"]
    assert all(row[1] is not None for row in run["loss"])


def test_nodes_say_what_they_did_and_should_be_doing(tmp_path: Path) -> None:
    live = LiveRun(running(tmp_path / "run", 2)).view()["live"]
    assert list(live["nodes"]) == ["phone", "server", "cloud"]
    assert live["nodes"]["phone"]["now"]  # an iteration has just ended, so the next has begun
    assert live["nodes"]["server"]["last"]
    assert all(0 <= node["share"] <= 1 for node in live["nodes"].values())


def test_a_resumed_run_writes_its_files_anew(tmp_path: Path) -> None:
    folder = running(tmp_path / "run", 5)
    follower = LiveRun(folder)
    assert follower.view()["entries"][0]["run"]["iterations"] == 5
    shorter = running(tmp_path / "other", 2)
    for name in ("metrics.jsonl", "trace.jsonl"):
        (shorter / name).replace(folder / name)
    assert follower.view()["entries"][0]["run"]["iterations"] == 2


def test_the_end_is_heard_and_a_torn_run_json_is_not(tmp_path: Path) -> None:
    folder = running(tmp_path / "run", 1)
    follower = LiveRun(folder)
    whole = (folder / "run.json").read_text()
    (folder / "run.json").write_text(whole[:100])
    assert follower.view()["entries"][0]["run"]["ended"] == "running"
    (folder / "run.json").write_text(json.dumps(json.loads(whole) | {"ended": "done"}))
    assert follower.view()["entries"][0]["run"]["ended"] == "done"


def test_a_line_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    folder = running(tmp_path / "run", 1)
    for name in ("metrics.jsonl", "trace.jsonl"):
        with (folder / name).open("a") as file:
            file.write("nonsense\n\n")
    assert LiveRun(folder).view()["entries"][0]["run"]["iterations"] == 1


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json"):
        LiveRun(tmp_path)
