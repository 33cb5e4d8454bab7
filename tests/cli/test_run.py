"""``palmette run`` and ``palmette program`` as people see them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.control.progress.wording import prediction_lines
from palmette.runtime.training.job import RemainingTime
from tests.cli.test_process import imported
from tests.cli.world import World
from tests.cost.small import instance, phase, source
from tests.runtime.world import ROOT, TINY, Runs

CUT = phase(source("phone", 12, "a"), instance("a", 1, 3, "phone", "b"), instance("b", 4, 5, "cloud"))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.chdir(ROOT)
    return Runs(tmp_path)


def test_a_program_is_printed_without_torch(world: World) -> None:
    assert imported("program", world.tree, "--node", "phone", *world.inputs) == []
    done = world.palmette("program", world.tree, "--node", "phone", *world.inputs)
    assert done.code == 0
    assert "send      output to server" in done.out
    assert world.refused("program", world.tree, "--node", "phnoe", *world.inputs) == [
        "--node: phnoe: no such node in this plan; did you mean phone?"
    ]


def test_people_see_a_bar_while_it_runs_and_a_table_when_it_is_done(
    runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    arguments = runs.arguments(TINY, CUT)
    capsys.readouterr()
    assert execute([*arguments, "--testbed", "paced", "--iterations", "5", "-o", str(runs.folder / "out")]) == 0
    said = capsys.readouterr()
    assert "samples/s" in said.err
    assert "iteration 5 of 5" in said.err
    assert "0%" in said.err  # the total is known from the beginning
    assert re.search(r"5 iterations take about \d+ s on this machine \(time dilation [0-9.]+\)", said.err)
    assert "loss" in said.err
    for word in ("accuracy on held-out data", "an iteration: measured", "estimated", "computing", "sending", "waiting"):
        assert word in said.out


def test_without_a_plan_or_with_one_that_carries_nothing(world: World) -> None:
    assert world.refused("run") == ["PLAN: missing: expected a plan file, or --resume DIR"]
    assert world.refused("run", world.tree) == [
        "--profile: missing: the plan carries none; expected one",
        "--cluster: missing: the plan carries none; expected one",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 s"), (59.6, "60 s"), (100, "2 min"), (4000, "67 min"), (9000, "2.5 h")]
)
def test_how_long_a_run_takes_is_told_roughly(seconds: float, said: str) -> None:
    line, *_ = prediction_lines(RemainingTime(20, seconds, 3.5, increased=False))
    assert line == f"20 iterations take about {said} on this machine (time dilation 3.5)"


@pytest.mark.parametrize(
    ("iterations", "seconds", "shorter"),
    [
        (20, 600, []),
        (20, 3600, ["shorter: 3 iterations take 10 min; "]),
        (2, 3600, ["shorter: an iteration of fewer samples takes less; "]),
    ],
)
def test_a_long_emulation_says_what_would_be_shorter(iterations: int, seconds: float, shorter: list[str]) -> None:
    _, *found = prediction_lines(RemainingTime(iterations, seconds, 1.0, increased=False))
    assert found == [f"{each}testbed none trains without emulating slow nodes and links" for each in shorter]


def test_that_time_is_stretched_further_is_said() -> None:
    first, second = prediction_lines(RemainingTime(1, 10.0, 7.0, increased=True))
    assert first == "this machine could not keep up: time dilation was increased, and iterations are measured again"
    assert second == "1 iteration takes about 10 s on this machine (time dilation 7)"
