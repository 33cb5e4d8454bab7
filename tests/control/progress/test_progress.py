"""A run's progress from Python: a bar where somebody sees it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import palmette as pt
from palmette.control.progress.choice import in_notebook, shown_progress
from palmette.control.progress.notebook import NotebookProgress
from palmette.control.progress.terminal import ProgressDisplay
from palmette.control.run.callbacks import RunStart
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import ProgressUpdate, RemainingTime, RunOutcome
from tests.control.run.test_callbacks import chain
from tests.runtime.world import Runs


class Cell:
    """What a notebook shows."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, html: str) -> None:
        self.shown.append(html)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A stand-in for IPython in the kernel of a notebook."""
    made = Cell()

    def display(html: str, *, display_id: bool) -> Cell:
        assert display_id
        made.update(html)
        return made

    shell: Any = ModuleType("IPython")
    shell.get_ipython = lambda: SimpleNamespace(kernel=object())
    shown: Any = ModuleType("IPython.display")
    shown.HTML, shown.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return made


def kinds(show: bool | None) -> list[type]:
    with shown_progress(show) as found:
        return [type(each) for each in found]


def test_progress_is_shown_where_somebody_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    for terminal, found in ((False, []), (True, [ProgressDisplay])):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal, raising=False)
        assert kinds(None) == found
        assert kinds(False) == []
        assert kinds(True) == [ProgressDisplay]


@pytest.mark.usefixtures("cell")
def test_a_notebook_gets_a_bar_of_its_own() -> None:
    assert kinds(None) == [NotebookProgress]
    assert kinds(False) == []


def test_a_notebook_sees_the_last_step_the_evaluation_and_the_end(cell: Cell) -> None:
    bar = NotebookProgress()
    start: Any = RunStart(folder=None, plan=None, options={}, iteration=0, iterations=4)  # type: ignore[arg-type]
    bar.on_start(start)
    bar.on_time_estimate(RemainingTime(4, 8.0, 2.0, increased=False))
    assert "4 iterations take about 8 s" in cell.shown[-1]
    for number in range(1, 5):
        bar.on_step(ProgressUpdate(number, 4, 0, 0.5, 10, 1.0))
    bar.on_evaluation(Evaluation(0.25, 0.5))
    bar.on_end(RunOutcome(iterations=4, ended="<stopped>"))

    last = cell.shown[-1]
    assert "<progress value='4' max='4'>" in last
    assert "loss 0.5000" in last
    assert "accuracy on held-out data: 50.0%" in last
    assert "&lt;stopped&gt;" in last
    assert len(cell.shown) < 8  # not one for every step


def test_a_run_from_python_shows_a_bar_if_asked_and_nothing_if_not(
    runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = chain(runs)
    capsys.readouterr()
    pt.run(**asked, iterations=2)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    monkeypatch.setenv("COLUMNS", "200")
    pt.run(**asked, iterations=3, progress=True, force=True)
    assert "iteration 3 of 3" in capsys.readouterr().err
