"""``palmette hub`` as a process: workers dial in, a run is submitted, and Ctrl-C ends it in order."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from palmette.cli import execute
from tests.control.conftest import runs
from tests.control.hub_workers import free_port, hub_keys
from tests.control.run.test_processes import trees
from tests.runtime.world import TINY, Runs, weights
from tests.testbed.test_namespaces import eventually

__all__ = ["runs"]


def process(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from palmette_command import main; main()", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_run_from_end_to_end(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    keys, at = hub_keys(runs.folder), f"127.0.0.1:{free_port()}"
    keys.issue("alice", role="operator")
    folder, mine = str(keys.folder), ["--at", at, "--keys", str(keys.folder)]
    hub = process("hub", "--listen", at, "--keys", folder, "--runs", str(runs.folder / "kept"), "--allow", TINY)
    worker = process("worker", at, "--keys", folder, "--node", "phone", "--allow", TINY, "--once", "--quiet")
    try:
        assert hub.stderr is not None
        assert hub.stderr.readline() == f"palmette: a hub at {at}; runs are in {runs.folder / 'kept'}\n"
        words = [*runs.arguments(TINY, trees(5)["alone"]), "--engine", "hub", "--iterations", "3", "--detach", *mine]
        assert execute(words) == 0
        run = capsys.readouterr().out.split()[1]
        assert execute(["logs", "-f", run, *mine]) == 0
        assert "ended: done, after 3 iterations" in capsys.readouterr().out
        assert execute(["ls", "--json", *mine]) == 0
        assert [each["state"] for each in json.loads(capsys.readouterr().out)["runs"]] == ["done"]
        assert weights(runs.folder / "kept" / run)
        assert worker.wait(20) == 0, "a run was over"
        hub.send_signal(signal.SIGINT)
        _, said = hub.communicate(timeout=20)
        assert hub.returncode == 0
        assert said.splitlines()[-1] == (
            "palmette: ending; the current run, if there is one, continues when the hub is started again"
        )
    finally:
        for each in (hub, worker):
            each.kill()
            each.communicate()


def test_no_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--keys", str(tmp_path / "keys"), "--runs", str(tmp_path / "runs")]
    assert execute(["hub", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "make one with: palmette keys" in line


@pytest.mark.slow
def test_two_hubs_do_not_share_their_runs(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    keys, kept = hub_keys(runs.folder), str(runs.folder / "kept")
    words = ["hub", "--keys", str(keys.folder), "--runs", kept, "--listen"]
    first = process(*words, f"127.0.0.1:{free_port()}")
    try:
        assert first.stderr is not None
        assert "a hub at" in first.stderr.readline()
        assert execute([*words, f"127.0.0.1:{free_port()}"]) == 2
        assert "another process is training in it" in capsys.readouterr().err
    finally:
        first.kill()
        first.communicate()
    assert eventually(lambda: first.returncode is not None, 5)
