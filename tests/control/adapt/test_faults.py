"""When something breaks, the run stops within seconds, says why in one line, and leaves nobody behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from palmette.cli import execute
from palmette.runtime.training import checkpoint
from tests.control.run.test_resume import assert_ended, palmette, when
from tests.cost.small import instance, phase, source
from tests.runtime.world import ROOT, TINY, Runs, alive, descendants, hired, losses, parent
from tests.thorough import mostly_thorough

THREE = phase(
    source("phone", 12, "1"),
    instance("1", 1, 2, "phone", "2"),
    instance("2", 3, 4, "server", "3"),
    instance("3", 5, 5, "cloud"),
)
# Long after a fault has to be noticed (4 s of silence), on a machine that is busy with other things.
NOTICED_S = 15.0
ENDED_S = 3.0


class Broken:
    """A run that something happens to once it has done ten iterations."""

    def __init__(self, runs: Runs, *more: str) -> None:
        self.folder = runs.folder / "out"
        self._temporary = runs.folder / "temporary"
        self._arguments = [*runs.arguments(TINY, THREE), "--iterations", "1000000", "--quiet", *more]
        self.took_s = 0.0

    def by(self, happens: Callable[[dict[str, int]], None], capsys: pytest.CaptureFixture[str]) -> str:
        """What the run says of it, in one line."""
        happened_s = []
        with hired() as crews:

            def happen() -> None:
                happened_s.append(time.monotonic())
                happens(crews[0].pids)

            watching = when(self.folder / "metrics.jsonl", 10, happen)
            capsys.readouterr()
            assert execute([*self._arguments, "-o", str(self.folder)]) == 1
            self.took_s = time.monotonic() - happened_s[0]
            watching.join()
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert said.err.endswith(f"; continue with: palmette run --resume {self.folder}\n")
        assert not any(alive(pid) for pid in crews[0].pids.values())
        assert not multiprocessing.active_children()
        assert not list(self._temporary.glob("palmette*"))
        assert checkpoint.last(self.folder / "checkpoints").checkpoint.progress.iteration >= 0
        assert json.loads((self.folder / "run.json").read_text())["ended"] != "done"
        return said.err


@pytest.mark.timing
def test_a_worker_that_is_killed_is_named(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Broken(runs)
    said = broken.by(lambda pids: os.kill(pids["server"], signal.SIGKILL), capsys)
    assert said.startswith("palmette: node server: its worker was killed by SIGKILL (out of memory, or killed by hand)")
    assert broken.took_s < NOTICED_S


@pytest.mark.timing
def test_a_worker_that_is_frozen_is_named(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Broken(runs)
    said = broken.by(lambda pids: os.kill(pids["cloud"], signal.SIGSTOP), capsys)
    assert said.startswith("palmette: node cloud: its worker has been silent for ")
    assert broken.took_s < NOTICED_S + ENDED_S


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("node", ["phone", "server", "cloud"])
@pytest.mark.parametrize("number", mostly_thorough([signal.SIGKILL, signal.SIGSTOP, signal.SIGABRT], 2))
@pytest.mark.parametrize("testbed", ["none", "paced"])
def test_whichever_is_lost_is_named(
    runs: Runs, capsys: pytest.CaptureFixture[str], node: str, number: signal.Signals, testbed: str
) -> None:
    broken = Broken(runs, "--testbed", testbed)
    said = broken.by(lambda pids: os.kill(pids[node], number), capsys)
    assert said.startswith(f"palmette: node {node}: ")
    assert broken.took_s < NOTICED_S + ENDED_S


@pytest.mark.slow
def test_emulated_links_that_are_gone_end_the_run(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    def end_links(workers: dict[str, int]) -> None:
        common = parent(next(iter(workers.values())))
        (links,) = {pid for pid in descendants(common) if parent(pid) == common} - set(workers.values())
        os.kill(links, signal.SIGKILL)

    said = Broken(runs, "--testbed", "paced").by(end_links, capsys)
    assert "the emulated links are gone: their process has ended" in said


@pytest.mark.slow
def test_when_the_engine_is_killed_workers_end_by_themselves(runs: Runs) -> None:
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, THREE), "--iterations", "1000000", "--quiet", "--force", "-o", str(out)]
    for testbed in ("none", "paced"):
        with palmette(*arguments, "--testbed", testbed, folder=runs.folder / "temporary") as process:
            when(out / "metrics.jsonl", 10, lambda: None).join()
            family = descendants(process.pid)
            assert len(family) >= 5  # three workers, their common parent, a tracker
            process.kill()
            assert_ended(family)
            assert process.communicate()[1] == ""
        (out / "metrics.jsonl").unlink()


def says(runs: Runs, capsys: pytest.CaptureFixture[str], model: str, *more: str) -> str:
    """What a run of three layers on two nodes says when it fails, in one line."""
    model = f"tests.runtime.networks:{model}"
    tree = phase(source("phone", 16, "a"), instance("a", 1, 2, "phone", "b"), instance("b", 3, 3, "cloud"))
    capsys.readouterr()
    with hired() as crews:
        assert execute([*runs.arguments(model, tree), "--quiet", "-o", str(runs.folder / "out"), *more]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert not any(alive(pid) for crew in crews for pid in crew.pids.values())
    assert not list((runs.folder / "temporary").glob("palmette*"))
    return said.err


def test_an_error_inside_the_network_is_one_line(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    said = says(runs, capsys, "fails")
    assert said.startswith("palmette: node phone: ValueError: something is wrong here; continue with: ")


def test_a_loss_that_is_not_a_number_ends_the_run(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    said = says(runs, capsys, "astray")
    assert said.startswith("palmette: the loss is nan before the first update, whatever the options of the training;")
    assert "resume" not in said


def test_too_little_memory_is_said(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert says(runs, capsys, "greedy").startswith("palmette: node phone: out of memory: ")


def test_a_network_that_cannot_be_sent_to_a_worker_is_said(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    said = says(runs, capsys, "unpicklable")
    assert said.startswith("palmette: node phone: its layers cannot be sent to its worker: ")


def test_a_label_beyond_the_classes_is_named(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    tree = phase(source("phone", 16, "a"), instance("a", 1, 3, "phone", "b"), instance("b", 4, 5, "cloud"))
    arguments = [*runs.arguments(TINY, tree), "--data", "tests.runtime.networks:labels_to_eleven", "--quiet"]
    assert execute([*arguments, "-o", str(runs.folder / "out")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "palmette: node phone: the data of phone has label 11; expected 0 to 9, the classes of the network"
    )
    assert said.count("\n") == 1


def test_a_gpu_that_is_not_there_is_said(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    text = runs.cluster.read_text().replace("cloud: {tier: cloud,", "cloud: {tier: cloud, device: cuda,")
    runs.cluster.write_text(text)
    assert execute([*runs.arguments(TINY, THREE), "--quiet", "-o", str(runs.folder / "out")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("palmette: node cloud: device: cuda: this machine has no usable GPU; expected device: cpu")
    assert said.count("\n") == 1


@pytest.mark.parametrize("full", ["metrics.jsonl", "trace.jsonl", "checkpoints", "run.json", "model.safetensors"])
def test_a_full_disk_is_one_line(
    runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """Files that may not grow stand in for a disk that is full."""
    alone = phase(source("phone", 12, "all"), instance("all", 1, 5, "phone"))
    out, arguments = runs.folder / "out", [*runs.arguments(TINY, alone), "--force"]

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    match full:
        case "checkpoints":
            monkeypatch.setattr("palmette.runtime.training.checkpoint.write_tensors", refuse)
        case "model.safetensors":
            monkeypatch.setattr("palmette.control.weights.write_tensors", refuse)
        case "run.json":
            monkeypatch.setattr("pathlib.Path.write_text", refuse)
        case _:
            out.mkdir()
            (out / full).symlink_to("/dev/full")
    capsys.readouterr()
    assert execute([*arguments, "--iterations", "2", "--quiet", "-o", str(out)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "No space left on device" in said.err
    assert full in said.err
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_files_that_may_not_grow_are_one_line(runs: Runs) -> None:
    out = runs.folder / "out"
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            "from palmette.cli import main; main()",
            *runs.arguments(TINY, THREE),
            *("--iterations", "1000000", "--quiet", "-o", str(out)),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert process.returncode == 1
    assert process.stdout == ""
    assert process.stderr.count("\n") == 1
    assert "File too large" in process.stderr


@pytest.mark.timing
@pytest.mark.slow
def test_standing_still_together_is_no_fault(runs: Runs) -> None:
    """Ctrl-Z stops engine and workers alike; after ``fg`` they go on."""
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, THREE), "--iterations", "1000000", "--quiet", "-o", str(out)]
    with palmette(*arguments, folder=runs.folder / "temporary") as process:
        when(out / "metrics.jsonl", 10, lambda: None).join()
        family = [process.pid, *descendants(process.pid)]
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(6)
        before = len(losses(out))
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.2)
        for pid in family:
            os.kill(pid, signal.SIGCONT)
        when(out / "metrics.jsonl", before + 10, lambda: process.send_signal(signal.SIGINT))
        assert process.communicate(timeout=60)[1].startswith("palmette: stopped after ")
