"""``palmette curves`` and ``palmette predict`` as a user sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from palmette.cli import execute

LOSS = ["predict", "loss", "--samples", "1300", "--classes", "7"]
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
TINY = ["curves", "collect", "--model", "lenet5", "--k1", "1", "--k2", "1", "--f1", "0.5", "--f2", "0.5"]


@pytest.mark.parametrize("predictor", ["shipped", "power-law"])
def test_the_next_losses_are_told_as_json(predictor: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*LOSS, "--losses", "2.3,2.0,1.8", "--epochs", "7", "--to-pruning", "0.5", "--predictor", predictor]
    assert execute([*command, "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert len(told["run"]) == 7
    for row in [*told["run"], told["change"]]:
        assert row["low"] <= row["expected"] <= row["robust"]


def test_the_next_losses_are_told_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*LOSS, "--losses", "2.3,2.0,1.8", "--to-classes", "9"]) == 0

    out = capsys.readouterr().out
    assert "+5" in out
    assert "the change: " in out


def test_no_epoch_is_trusted_beyond_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*LOSS, "--losses", "2.3,1.0", "--bound", "0.001", "--predictor", "power-law", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["change"] is None
    assert all(row["robust"] >= -0.001 for row in told["run"])
    assert all(row["total_robust"] >= -0.001 * epoch - 1e-12 for epoch, row in enumerate(told["run"], 1))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--losses", "2.3,x"], "--losses: 2.3,x: expected numbers separated by commas"),
        (["--losses", "2.3,nan"], "--losses: nan: expected finite numbers of 0 or more"),
        (["--losses", "-1"], "--losses: -1.0: expected finite numbers of 0 or more"),
        (["--losses", ","], "--losses: none: expected finite numbers of 0 or more"),
        (["--losses", "1", "--pruning", "1"], "--pruning: 1.0: expected a fraction from 0 to below 1"),
        (
            ["--losses", "1", "--pruning", "0.5", "--to-pruning", "0.2"],
            "--to-pruning: 0.2: expected a fraction from 0.5",
        ),
        (["--losses", "1", "--predictor", "none.safetensors"], "none.safetensors: the file: cannot be read"),
    ],
)
def test_bad_options_are_a_line_each(wrong: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*LOSS, *wrong]) == 2

    out, err = capsys.readouterr()
    assert not out
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_bad_grid_tells_every_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "curves.jsonl"
    assert execute([*TINY, "-o", str(path), "--k1", "0", "--f1", "1,0.5", "--seeds", "0"]) == 2

    err = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in err] == ["--seeds", "--k1", "--f1"]
    assert not path.exists()


def test_a_file_of_curves_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    first = '{"format":"palmette.curves/1","model":"m","data":"d","batch":1,"optimizer":"o","lr":0.1}\n'
    phase = '{"nodes":"gold","samples":9,"classes":2,"pruning":0.0,"start_loss":1.0,"losses":[0.9]}'
    good.write_text(first + f'{{"seed":0,"phases":[{phase}]}}\n')
    bad.write_text(first + f'{{"seed":0,"phases":[{phase.replace("0.9", "-0.9")}]}}\n')

    assert execute(["check", str(good)]) == 0
    assert "1 learning curve of m on d" in capsys.readouterr().out
    assert execute(["check", str(bad)]) == 2
    assert "bad.jsonl: curves[0].phases[0].losses[0]: -0.9" in capsys.readouterr().err


@pytest.mark.parametrize("predictor", ["shipped", "power-law"])
def test_a_predictor_is_evaluated_on_curves_that_it_has_not_seen(
    predictor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "curves.jsonl"
    origin = {"format": "palmette.curves/1", "model": "m", "data": "d", "batch": 1, "optimizer": "o", "lr": 0.1}
    whole = {"nodes": "gold", "samples": 900, "classes": 7, "pruning": 0.0, "start_loss": 2.0, "losses": [1.9, 1.7]}
    half = whole | {"nodes": "silver", "pruning": 0.5, "start_loss": 2.1, "losses": [2.0]}

    def evaluated(*phases: dict[str, Any]) -> Any:
        path.write_text(json.dumps(origin) + "\n" + json.dumps({"seed": 0, "phases": phases}) + "\n")
        assert execute(["predict", "evaluate", str(path), "--predictor", predictor, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    found = evaluated(whole, half)
    assert (found["model"], found["curves"], set(found["quality"])) == ("m", 1, {predictor, "power-law"})
    runs, change = found["quality"][predictor]["run"], found["quality"][predictor]["change"]
    assert (runs["many"], change["many"]) == (4, 1), "changes of 2 epochs and of 1 before, of one after"
    assert evaluated(whole)["quality"][predictor]["change"] is None
    assert execute(["predict", "evaluate", str(path), "--predictor", predictor]) == 0
    assert "1 curves of m on d" in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_there_and_the_same_command_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "curves.jsonl"
    begin = [sys.executable, "-c", "from palmette.cli import main; main()"]
    options = ["-o", str(path), "--last", "2", "--jobs", "1"]
    started = subprocess.Popen([*begin, *TINY, *options, "--seeds", "40"], **PIPES, start_new_session=True)
    while not path.exists() or len(path.read_text().splitlines()) < 3:
        assert started.poll() is None
        time.sleep(0.1)
    os.killpg(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=60)

    assert started.returncode == 1
    assert err.splitlines() == [f"palmette: stopped; {path} has the finished curves; the same command continues"]
    kept = path.read_text().splitlines()
    assert execute([*TINY, *options, "--seeds", "1", "--quiet"]) == 0
    assert path.read_text().splitlines()[: len(kept)] == kept
