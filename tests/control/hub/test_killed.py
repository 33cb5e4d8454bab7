"""A hub that is killed and started again: what is left of its runs, what it says of them, and who comes back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.client import RunsAtHub
from palmette.runtime.options import Options
from palmette.spec.run_entry import RunEntry
from tests.control.adapt.test_recovery import ASKED
from tests.control.hub_workers import DiallingWorkers
from tests.control.run.test_processes import trees
from tests.runtime.rig import relatively_off
from tests.runtime.world import CLUSTER, TINY, Runs, alone, weights
from tests.testbed.test_namespaces import eventually

pytestmark = pytest.mark.slow
DOUBLE = Options(optimizer="momentum", lr=0.05, seed=3, dtype="float64")
CHOSEN = ["--optimizer", "momentum", "--lr", "0.05", "--seed", "3", "--dtype", "float64"]


class KilledHub(DiallingWorkers):
    """A hub in a process of its own, and workers that dial it in threads of this one."""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs.folder)
        self.keys.issue("alice", role="operator")
        self.runs, self.kept = runs, runs.folder / "kept"
        self.process = self.started()

    def started(self) -> subprocess.Popen[str]:
        words = ["hub", "--listen", self.listen, "--keys", str(self.keys.folder), "--runs", str(self.kept)]
        command = [sys.executable, "-c", "from palmette.cli import main; main()", *words, "--allow", TINY]
        made = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert made.stderr is not None
        assert made.stderr.readline().startswith("palmette: a hub at")
        return made

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def restart(self) -> None:
        self.process = self.started()

    def options(self) -> list[str]:
        return ["--at", self.address, "--keys", str(self.keys.folder)]

    def submit(self, iterations: int) -> None:
        words = [*self.runs.arguments(TINY, trees(5)["cut in three"]), "--engine", "hub", *CHOSEN, *self.options()]
        plan = Path(words[1])  # as if a strategy had made it, so that workers keep their state
        plan.write_text(json.dumps({**json.loads(plan.read_text()), "strategy": "hybrid", "asked": ASKED}))
        assert execute([*words, "--iterations", str(iterations), "--detach"]) == 0

    def entries(self) -> list[RunEntry]:
        client = RunsAtHub(HubAccess(self.address, self.keys.credentials("alice")))
        try:
            return client.entries()
        finally:
            client.close()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.kill()


@pytest.fixture
def place(runs: Runs) -> Iterator[KilledHub]:
    runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
    with KilledHub(runs) as made:
        yield made


def test_runs_that_were_done_running_and_waiting(place: KilledHub, capsys: pytest.CaptureFixture[str]) -> None:
    place.start()
    place.submit(3)
    assert eventually(lambda: place.entries()[0].state == "done", 60)
    place.submit(100)
    place.submit(5)
    assert eventually(lambda: place.entries()[1].iterations > 5, 60)
    before = place.entries()
    assert [each.state for each in before] == ["done", "running", "waiting"]
    place.kill()
    capsys.readouterr()
    assert execute(["ls", *place.options()]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"palmette: no connection to the hub at {place.address}: ")
    place.restart()
    assert eventually(lambda: [each.state for each in place.entries()] == ["done"] * 3, 120), place.entries()
    after = place.entries()
    assert [each.run for each in after] == [each.run for each in before]
    assert [each.iterations for each in after] == [3, 100, 5]
    for each in after:
        exact = alone(TINY, 12, each.iterations, DOUBLE)[1]
        assert relatively_off(weights(place.kept / each.run), exact) <= 1e-12
    log = (place.kept / after[1].run / "log.txt").read_text()
    assert "the engine of this run has died; continuing after" in log
    lines = (place.kept / after[1].run / "metrics.jsonl").read_text().splitlines()
    numbers = [found["iteration"] for line in lines if "loss" in (found := json.loads(line)) and "wall_s" in found]
    assert numbers == sorted(set(numbers)), "no iteration is told twice"
