"""RightTrain, its rivals and ``palmette learn`` on the command line: the fields of the format, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.world import World
from tests.plan.righttrain.problems import CURVE

FIELDS = {"epochs", "data_fraction", "epoch_s", "total_s", "total_j", "mapping", "cpu", "data"}


@pytest.fixture
def curve(world: World) -> Path:
    return world.write("l.json", CURVE.to_json())


@pytest.mark.parametrize("strategy", ["righttrain", "righttrain-optimum"])
def test_the_plan(world: World, curve: Path, strategy: str) -> None:
    asked = ("--learning", curve, "--deadline", "2h", "--loss", "0.5", "--batch", "64")
    plan = world.json("plan", strategy, *world.inputs, *asked)
    decision = plan["decision"]
    assert plan["strategy"] == strategy
    assert set(decision) >= FIELDS
    assert isinstance(decision["epochs"], int)
    assert plan["estimate"]["total_j"] == pytest.approx(decision["total_j"])
    assert plan["phases"][0]["epochs"] == decision["epochs"]
    assert all(isinstance(many, int) for many in decision["data"].values())
    file = world.write("plan.json", json.dumps(plan))
    assert world.json("estimate", file)["total_s"] == pytest.approx(decision["total_s"])


def test_what_cannot_be_met(world: World, curve: Path) -> None:
    def told(*asked: Any) -> tuple[int, list[str]]:
        done = world.palmette("plan", "righttrain", *world.inputs, "--learning", curve, *asked)
        assert done.out == ""
        return done.code, done.lines

    code, (line,) = told("--loss", "0.5", "--deadline", "1s")
    assert (code, "--deadline: 1 s: cannot be met; the least that can be had is" in line) == (3, True)
    code, (line,) = told("--loss", "0.04")
    assert (code, "the floor of the learning curve is 0.05" in line) == (3, True)
    code, (line,) = told("--deadline", "2h")
    assert (code, "--loss: missing" in line) == (2, True)


def test_too_few_layers_for_split_learning(world: World, curve: Path) -> None:
    done = world.palmette("plan", "split-learning", *world.inputs, "--learning", curve, "--loss", "0.5")
    assert done.code == 2
    assert "expected at least 3" in done.err


def test_a_spoilt_curve_tells_every_fault(world: World) -> None:
    file = world.write("l.json", json.dumps({"format": "palmette.learning/1", "floor": -1, "scale": 0}))
    done = world.palmette("plan", "righttrain", *world.inputs, "--learning", file, "--loss", "0.5")
    assert done.code == 2
    assert [line.split(": ")[2] for line in done.lines][:2] == ["floor", "scale"]
    assert len(done.lines) == 5


def test_learn_fits_a_curve_to_runs(world: World, curve: Path) -> None:
    asked = ("--learning", curve, "--loss", "0.5")
    plan = world.json("plan", "righttrain", *world.inputs, *asked)
    folders = [_run(world.folder / f"run{k}", plan, spread) for k, spread in enumerate((1.0, 1.02))]
    file = world.folder / "fitted.json"
    told = world.json("learn", *folders, "-o", file)
    assert told["format"] == "palmette.learning/1"
    assert told["left_out_error"] < 0.1
    assert json.loads(file.read_text()) == told
    out = world.palmette("learn", *folders).out
    assert "error on held-out runs" in out
    assert "not known, so that plans which vary it are refused: data" in out
    assert out.endswith("palmette pilot tiny --cluster CLUSTER\n")
    (line,) = world.refused("plan", "righttrain", *world.inputs, "--learning", file, "--loss", "0.5")
    assert line.startswith("--learning: data and replicas: no run of this curve varied that; expected")
    assert world.palmette("learn", world.folder / "nothing").code == 2


def _run(folder: Path, plan: dict[str, Any], factor: float) -> Path:
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"format": "palmette.run/1", "plan": plan, "ended": "done"}))
    lines = [
        {"iteration": 2 * epoch + k, "epoch": epoch, "loss": factor * CURVE.loss(epoch + 1, 1.0, 1), "samples": 32}
        for epoch in range(8)
        for k in range(2)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
