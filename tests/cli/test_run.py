"""``palmette run`` and ``palmette program`` as people see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.cli import run
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
    assert run([*arguments, "--testbed", "paced", "--iterations", "5", "-o", str(runs.folder / "out")]) == 0
    said = capsys.readouterr()
    assert "samples/s" in said.err
    assert "5/5" in said.err
    assert "loss" in said.err
    for word in ("accuracy on held-out data", "an iteration: measured", "estimated", "computing", "sending", "waiting"):
        assert word in said.out


def test_without_a_plan_or_with_one_that_carries_nothing(world: World) -> None:
    assert world.refused("run") == ["PLAN: missing: expected a plan file, or --resume DIR"]
    assert world.refused("run", world.tree) == [
        "--profile: missing: the plan carries none; expected a file",
        "--cluster: missing: the plan carries none; expected a file",
    ]
