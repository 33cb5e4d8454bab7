"""A run that was stopped, however, goes on to the weights of one that never was."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.control.run.folder import owned
from palmette.runtime.training import loop
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off
from tests.runtime.world import ROOT, TINY, Runs, alive, descendants, lines, losses, weights

REPLICAS = phase(
    source("phone", 7, "a"),
    source("phone", 5, "b"),
    instance("a", 1, 3, "phone", "end"),
    instance("b", 1, 3, "cloud", "end"),
    instance("end", 4, 5, "cloud"),
)
DIES_AS_OWNER = """
import os, sys
from pathlib import Path
from palmette.control.run.folder import owned
with owned(Path(sys.argv[1])):
    os.kill(os.getpid(), 9)
"""
ADAM = ["--optimizer", "adam", "--dtype", "float64", "--seed", "4", "--quiet", "--trace", "full"]


def when(path: Path, many: int, then: object) -> threading.Thread:
    """Do something once a run has written so many iterations."""

    def watch() -> None:
        while not path.exists() or path.read_text().count("\n") < many:
            time.sleep(0.01)
        then()  # type: ignore[operator]

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def assert_same(stopped: Path, whole: Path) -> None:
    assert off(weights(stopped), weights(whole)) == 0
    assert losses(stopped) == losses(whole)
    metrics = [line for line in lines(stopped / "metrics.jsonl") if "accuracy" not in line]
    assert [line["iteration"] for line in metrics] == list(range(len(metrics)))
    assert [line["wall_s"] for line in metrics] == sorted(line["wall_s"] for line in metrics)
    assert {line["iteration"] for line in lines(stopped / "trace.jsonl")} == set(range(len(metrics)))
    assert json.loads((stopped / "run.json").read_text())["ended"] == "done"
    assert json.loads((stopped / "run.json").read_text())["iterations"] == len(metrics)


def test_after_ctrl_c_a_run_goes_on_to_the_same_weights(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    whole, stopped = runs.folder / "whole", runs.folder / "stopped"
    arguments = [*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "150"]
    assert execute([*arguments, "-o", str(whole)]) == 0
    before = signal.getsignal(signal.SIGINT)
    watching = when(stopped / "metrics.jsonl", 20, lambda: os.kill(os.getpid(), signal.SIGINT))
    capsys.readouterr()
    assert execute([*arguments, "-o", str(stopped)]) == 1
    watching.join()
    assert signal.getsignal(signal.SIGINT) is before
    done = len(losses(stopped))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (f"palmette: stopped after {done} iterations; continue with: palmette run --resume {stopped}\n")
    assert 20 <= done < 150
    assert json.loads((stopped / "run.json").read_text())["ended"] == "stopped"
    assert execute(["run", "--resume", str(stopped), "--quiet"]) == 0
    assert_same(stopped, whole)


def test_what_is_finished_stays_as_it_is(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "3", "-o", str(out)]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    capsys.readouterr()
    assert execute(["run", "--resume", str(out)]) == 0
    assert "nothing is left to do" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


def test_a_run_that_goes_on_keeps_its_options(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "3", "-o", str(out)]) == 0
    capsys.readouterr()
    assert execute(["run", "--resume", str(out), "--iterations", "3", "-o", str(out)]) == 0
    capsys.readouterr()
    assert execute(["run", "--resume", str(out), "--iterations", "9", "--freeze", "conv1", "--data", "digits"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "palmette: --iterations: 9: this run began with 3; expected the same, or --resume alone",
        "palmette: --freeze: ['conv1']: this run began with (); expected the same, or --resume alone",
    ]


def test_a_run_is_replaced_by_another_only_where_that_is_meant(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "5", "-o", str(out)]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    again = [*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "2", "-o", str(out)]
    assert execute(again) == 2
    how = f"expected another one, --force to replace it, or to continue it: palmette run --resume {out}"
    assert capsys.readouterr().err == f"palmette: {out}: the folder: it holds a run; {how}\n"
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    (out / "samples").mkdir()
    (out / "samples" / "mine.txt").write_text("not of the run")
    assert execute([*again, "--force"]) == 0
    assert (out / "samples" / "mine.txt").exists()
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["000000", "000002", "best"]
    assert len(losses(out)) == 2


def test_a_folder_has_one_owner(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "1", "-o", str(out)]
    assert execute(arguments) == 0
    capsys.readouterr()
    with owned(out):
        for command in ([*arguments, "--force"], ["run", "--resume", str(out)]):
            assert execute(command) == 2
            assert "another process is training in it" in capsys.readouterr().err
    subprocess.run([sys.executable, "-c", DIES_AS_OWNER, str(out)], check=False, cwd=ROOT)
    assert execute(["run", "--resume", str(out), "--quiet"]) == 0


@pytest.mark.parametrize("comes_back", [False, True], ids=["for good", "until a worker keeps samples there"])
def test_a_folder_that_vanishes_is_an_error(runs: Runs, capsys: pytest.CaptureFixture[str], comes_back: bool) -> None:
    out = runs.folder / "out"

    def remove() -> None:
        out.rename(runs.folder / "elsewhere")
        if comes_back:
            (out / "samples").mkdir(parents=True)

    watching = when(out / "metrics.jsonl", 10, remove)
    assert execute([*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "100000", "-o", str(out)]) == 1
    watching.join()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "was removed while the run was going on" in said
    assert "resume" not in said


@pytest.mark.parametrize("nonsense", ["missing", "empty", "list", "plan", "checkpoint", "no checkpoint", "weights"])
def test_nonsense_cannot_be_resumed(runs: Runs, capsys: pytest.CaptureFixture[str], nonsense: str) -> None:
    out = runs.folder / "out"
    recorded = runs.folder.parent / "recorded"  # one run serves all cases
    if not recorded.exists():
        assert execute([*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "1", "-o", str(recorded)]) == 0
    shutil.copytree(recorded, out)
    last = out / "checkpoints" / "000001"
    match nonsense:
        case "missing":
            shutil.rmtree(out)
        case "empty":
            (out / "run.json").write_text("")
        case "list":
            (out / "run.json").write_text("[]")
        case "plan":
            (out / "run.json").write_text('{"plan": {"model": 3}}')
        case "checkpoint":
            (last / "progress.json").write_text("{")
            shutil.rmtree(out / "checkpoints" / "000000")
        case "no checkpoint":
            shutil.rmtree(out / "checkpoints")
        case _:
            (last / "model.safetensors").write_bytes(b"x")
            shutil.rmtree(out / "checkpoints" / "000000")
    capsys.readouterr()
    assert execute(["run", "--resume", str(out), "--quiet"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert all(line.startswith("palmette: ") for line in said.err.splitlines())
    assert said.err


@contextmanager
def palmette(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A command line in a process group of its own, which is gone afterwards, also where a test fails."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from palmette.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_a_signal_to_the_whole_group_everybody_ends(runs: Runs, number: signal.Signals) -> None:
    """A terminal sends Ctrl-C to workers too; a service manager or ``timeout`` ends all alike."""
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "100000", "-o", str(out)]
    with palmette(*arguments, folder=runs.folder / "temporary") as process:
        when(out / "metrics.jsonl", 20, lambda: None).join()
        family = descendants(process.pid)
        os.killpg(process.pid, number)
        said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said[0] == ""
    assert said[1].startswith("palmette: stopped after ")
    assert said[1].count("\n") == 1
    assert_ended(family)
    assert not list((runs.folder / "temporary").glob("palmette*"))


def assert_ended(family: list[int], within_s: float = 5.0) -> None:
    until = time.monotonic() + within_s
    while any(map(alive, family)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in family if alive(pid)]


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_after_kill_9_of_everybody_a_run_goes_on_to_the_same_weights(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    whole, stopped = runs.folder / "whole", runs.folder / "stopped"
    arguments = [
        *runs.arguments(TINY, REPLICAS),
        "--optimizer",
        optimizer,
        "--epochs",
        "3",
        "--quiet",
        "--trace",
        "full",
    ]
    assert execute([*arguments, "-o", str(whole)]) == 0
    with palmette(*arguments, "-o", str(stopped), folder=runs.folder / "temporary") as process:
        when(
            stopped / "metrics.jsonl", 180, lambda: None
        ).join()  # an epoch has 111 iterations: one checkpoint is there
        family = descendants(process.pid)
        process.kill()
        for pid in family:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        process.communicate()
    last = max(path.name for path in (stopped / "checkpoints").glob("[0-9]*"))
    assert int(last) % 111 == 0
    assert len(losses(stopped)) > int(last)
    with (stopped / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 18')  # half a line, as a kill may leave it
    monkeypatch.setattr(loop, "CHECKPOINT_EVERY_S", 0.2)
    assert execute(["run", "--resume", str(stopped), "--quiet"]) == 0
    assert_same(stopped, whole)


@pytest.mark.slow
def test_where_the_engine_alone_dies_a_run_goes_on_from_what_workers_keep(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """No checkpoint is made meanwhile: an epoch has 111 iterations, and a minute is far away."""
    whole, stopped = runs.folder / "whole", runs.folder / "stopped"
    arguments = [*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "110"]
    plan = json.loads((runs.folder / "plan.json").read_text())
    (runs.folder / "plan.json").write_text(json.dumps({**plan, "strategy": "hybrid", "asked": {}}))
    assert execute([*arguments, "-o", str(whole)]) == 0
    with palmette(*arguments, "-o", str(stopped), folder=runs.folder / "temporary") as process:
        when(stopped / "metrics.jsonl", 40, lambda: None).join()
        family = descendants(process.pid)
        process.kill()
        process.communicate()
    assert_ended(family, within_s=20)
    done = len(losses(stopped))
    assert 40 <= done < 110
    capsys.readouterr()
    assert execute(["run", "--resume", str(stopped)]) == 0
    said = re.search(
        r"has died; continuing after (\d+) iterations, from what workers have kept", capsys.readouterr().err
    )
    assert said is not None
    assert done - 1 <= int(said[1]) <= done
    assert_same(stopped, whole)
    assert sorted(path.name for path in (stopped / "checkpoints").iterdir()) == [said[1].zfill(6), "000110", "best"]
