"""Runs without a terminal on this machine: started, listed, read, stopped, continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palmette.cli import detach, execute
from palmette.control.detached import detached_runs
from tests.control.conftest import runs
from tests.control.run.test_processes import trees
from tests.runtime.world import TINY, Runs, weights
from tests.testbed.test_namespaces import eventually

__all__ = ["runs"]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def started(runs: Runs, iterations: int, *more: str) -> list[str]:
    words = [*runs.arguments(TINY, trees(5)["cut in three"]), "--iterations", str(iterations)]
    return [*words, "-o", str(runs.folder / "out"), "--detach", *more]


@pytest.mark.slow
def test_a_run_goes_on_without_its_terminal(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(started(runs, 100_000)) == 0
    run = capsys.readouterr().out.split()[1]
    (found,) = detached_runs()
    assert eventually(lambda: found.entry().iterations > 0, 30)
    assert execute(["ls", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["runs"]
    assert (listed["run"], listed["state"], listed["folder"]) == (run, "running", str(runs.folder / "out"))
    assert execute(["stop", run[:4]]) == 0
    assert f"continue with: palmette run --resume {runs.folder / 'out'} --detach" in capsys.readouterr().out
    assert not found.alive
    assert found.entry().state == "stopped"
    assert weights(runs.folder / "out")
    assert execute(["logs", run]) == 0
    assert "manual for" in capsys.readouterr().out
    assert execute(["stop", run]) == 2
    assert "it is stopped; expected a running one" in capsys.readouterr().err


@pytest.mark.slow
def test_a_stopped_run_is_continued_without_a_terminal(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(runs.folder / "out")
    assert execute(started(runs, 4)) == 0
    assert execute(["logs", "-f", out]) == 0
    assert "ended: done, after 4 iterations" in capsys.readouterr().out
    assert execute(["run", "--resume", out, "--detach"]) == 0
    (found,) = detached_runs()
    assert eventually(lambda: found.entry().state == "done", 60)
    assert execute(["ls"]) == 0
    assert "done" in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_wrong_is_said_at_once(
    runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detach, "START_S", 120.0)  # however busy the machine is
    assert execute(started(runs, 4, "--data", "nonsense")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("palmette: ")
    assert "nonsense" in line


@pytest.mark.slow
def test_a_run_that_takes_long_to_begin_is_told_as_such(
    runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detach, "START_S", 0.0)
    assert execute(started(runs, 4)) == 0
    assert f"in {runs.folder / 'out'} has not begun yet, and may still be refused;" in capsys.readouterr().out
    (found,) = detached_runs()
    assert eventually(lambda: found.entry().state == "done", 60)


def test_a_folder_that_holds_a_run_is_refused(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    (runs.folder / "out").mkdir()
    (runs.folder / "out" / "run.json").write_text("{}")
    assert execute(started(runs, 4)) == 2
    assert "it holds a run" in capsys.readouterr().err
    assert detached_runs() == []


def test_no_runs_are_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["ls"]) == 0
    assert capsys.readouterr().out == ""
    assert execute(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": []}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["stop", "3f2a"], "RUN: 3f2a: no such run; there is none at this machine"),
        (["ls", "--workers"], "--workers: given: this machine is no hub; expected its address with --at"),
        (["ls", "--at", "a.b:1", "--keys", "nowhere"], "--keys: nowhere: there is no authority.crt"),
        (["run", "--at", "a.b:1"], "--at: a.b:1: a run at a hub has no terminal; expected --detach with it"),
    ],
)
def test_what_is_wrong_is_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(words) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"palmette: {line}")
