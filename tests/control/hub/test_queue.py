"""Runs at a hub that keeps them: submitted, listed, read, stopped, continued; who may do what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.control.hub.queue import HubPlace, RunQueue
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.runtime.engines.hub.client import RunsAtHub
from palmette.runtime.options import Options
from tests.control.hub_workers import HubWorkers, free_port
from tests.control.run.test_processes import trees
from tests.runtime.rig import relatively_off
from tests.runtime.world import CLUSTER, NODES, TINY, Runs, alone, weights
from tests.testbed.test_namespaces import eventually

DOUBLE = Options(optimizer="momentum", lr=0.05, seed=3, dtype="float64")
CHOSEN = ["--optimizer", "momentum", "--lr", "0.05", "--seed", "3", "--dtype", "float64"]
HERE = AllowedNames(frozenset({TINY}), command="hub")


class Place(HubWorkers):
    """A hub that keeps runs, and an operator and a viewer."""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs.folder)
        self.keys.issue("alice", role="operator")
        self.keys.issue("screen", role="viewer")
        self.runs, self.folder = runs, runs.folder / "kept"
        self.queue = self.opened()

    def opened(self, allowed: AllowedNames = HERE) -> RunQueue:
        queue = RunQueue(HubPlace(self.hub, self.listen, self.keys.folder, self.folder), allowed)
        self.hub.keep_runs(queue)
        return queue

    def options_of(self, name: str) -> list[str]:
        return ["--at", self.address, "--keys", str(self.keys.folder), "--as", name]

    def submit(self, *more: str, name: str = "alice", iterations: int = 3) -> int:
        words = [*self.runs.arguments(TINY, trees(5)["cut in three"]), "--engine", "hub", *CHOSEN]
        return execute([*words, "--iterations", str(iterations), "--detach", *self.options_of(name), *more])

    def client(self, name: str) -> RunsAtHub:
        return RunsAtHub(HubAccess(self.address, self.keys.credentials(name)))

    def state(self) -> str:
        return self.queue.entries()[-1].state

    def __exit__(self, *_: object) -> None:
        self.queue.close()
        super().__exit__()


@pytest.fixture
def place(runs: Runs) -> Iterator[Place]:
    runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
    with Place(runs) as made:
        yield made


Said = Callable[[], tuple[str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def read() -> tuple[str, str]:
        found = capsys.readouterr()
        return found.out, found.err

    return read


def audit(place: Place, event: str) -> list[dict[str, str]]:
    lines = (place.keys.folder / "audit.jsonl").read_text().splitlines()
    return [found for line in lines if (found := json.loads(line))["event"] == event]


def test_a_run_waits_for_its_workers_and_trains_as_one_process(place: Place, said: Said) -> None:
    assert place.submit() == 0
    run = said()[0].split()[1]
    assert execute(["ls", "--json", *place.options_of("screen")]) == 0
    (listed,) = json.loads(said()[0])["runs"]
    assert (listed["run"], listed["state"], listed["by"]) == (run, "waiting", "alice")
    assert listed["why"] == "for the worker of cloud, phone and server"
    place.start()
    assert eventually(lambda: place.state() == "done", 60), place.queue.entries()
    assert relatively_off(weights(place.folder / run), alone(TINY, 12, 3, DOUBLE)[1]) <= 1e-12
    assert execute(["logs", run[:3], *place.options_of("screen")]) == 0
    assert "iteration 3 of 3, loss " in said()[0]
    assert execute(["watch", run, "--terminal", *place.options_of("screen")]) == 0
    assert f"{run}: manual for {TINY}, ended: done, 3 iterations" in " ".join(said()[0].split())
    assert execute(["fetch", run, "-o", str(place.runs.folder / "mine"), *place.options_of("screen")]) == 1
    assert not (place.runs.folder / "mine").exists()
    assert execute(["fetch", run, "-o", str(place.runs.folder / "mine"), *place.options_of("alice")]) == 0
    assert "files" in said()[0]
    for name in ("model.safetensors", "run.json", "trace.jsonl", "log.txt"):
        assert (place.runs.folder / "mine" / name).read_bytes() == (place.folder / run / name).read_bytes()
    assert [(each["node"], each["run"]) for each in audit(place, "run")] == [("alice", run)]
    assert execute(["ls", "--workers", "--json", *place.options_of("screen")]) == 0
    assert [each["node"] for each in json.loads(said()[0])["workers"]] == sorted(NODES)


@pytest.mark.slow
def test_a_run_that_is_stopped_continues_to_the_same_weights(place: Place, said: Said) -> None:
    place.start()
    assert place.submit(iterations=40) == 0
    run = said()[0].split()[1]
    assert eventually(lambda: place.queue.entries()[0].iterations > 2, 60)
    assert execute(["stop", run, *place.options_of("alice")]) == 0
    assert f"run {run}: stopped after " in said()[0]
    assert execute(["run", "--resume", run, "--detach", *place.options_of("alice")]) == 0
    assert eventually(lambda: place.state() == "done", 60)
    assert relatively_off(weights(place.folder / run), alone(TINY, 12, 40, DOUBLE)[1]) <= 1e-12
    assert [each["node"] for name in ("stop", "resume") for each in audit(place, name)] == ["alice"] * 2


@pytest.mark.slow
def test_a_hub_that_ends_continues_its_run_when_it_is_started_again(place: Place) -> None:
    place.start()
    assert place.submit(iterations=40) == 0
    assert eventually(lambda: place.queue.entries()[0].iterations > 2, 60)
    place.queue.close()
    assert place.state() == "waiting"
    place.queue = place.opened()
    assert eventually(lambda: place.state() == "done", 60)
    (run,) = (each.run for each in place.queue.entries())
    assert relatively_off(weights(place.folder / run), alone(TINY, 12, 40, DOUBLE)[1]) <= 1e-12


def test_a_run_that_waits_can_be_stopped_and_put_back(place: Place, said: Said) -> None:
    assert place.submit() == 0
    run = said()[0].split()[1]
    assert execute(["stop", run, *place.options_of("alice")]) == 0
    assert said()[0] == f"run {run}: stopped after 0 iterations\n"
    place.client("alice").resume(run)
    assert place.state() == "waiting"


@pytest.mark.parametrize("words", [["stop", "{run}"], ["run", "--resume", "{run}", "--detach"]])
def test_a_viewer_may_only_look(place: Place, said: Said, words: list[str]) -> None:
    assert place.submit() == 0
    run = said()[0].split()[1]
    assert execute([*(word.format(run=run) for word in words), *place.options_of("screen")]) == 1
    expected = "the certificate of screen does not allow this: it is for the role viewer, not operator"
    assert said()[1] == f"palmette: the hub at {place.address} refuses: {expected}\n"
    assert [each["node"] for each in audit(place, "refusal")] == ["screen"]
    assert place.state() == "waiting"


def test_a_viewer_may_start_nothing(place: Place, said: Said) -> None:
    assert place.submit(name="screen") == 1
    assert "it is for the role viewer, not operator" in said()[1]
    assert place.queue.entries() == []
    assert audit(place, "refusal")[0]["why"] == "SubmitRun: it is for the role viewer, not operator"


def test_a_worker_may_not_even_look(place: Place, said: Said) -> None:
    assert execute(["ls", *place.options_of("phone")]) == 1
    assert "it is for the role worker, not viewer or operator" in said()[1]
    assert audit(place, "refusal")[0]["node"] == "phone"


def test_a_revoked_operator_is_refused(place: Place) -> None:
    client = place.client("alice")
    assert client.entries() == []
    place.keys.revoke("alice")
    with pytest.raises(Exception, match="it was revoked"):
        client.entries()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["stop", "feed"], "RUN: feed: no such run; there is none at the hub at {at}"),
        (["logs", "feed"], "RUN: feed: no such run; there is none at the hub at {at}"),
    ],
)
def test_unknown_runs(place: Place, said: Said, words: list[str], line: str) -> None:
    assert execute([*words, *place.options_of("alice")]) == 2
    assert said()[1] == f"palmette: {line.format(at=place.address)}\n"


def test_code_that_the_hub_does_not_allow(place: Place, said: Said) -> None:
    place.queue.close()
    place.queue = place.opened(AllowedNames(command="hub"))
    assert place.submit() == 2
    assert f"{TINY} is not allowed here; its owner may: palmette hub --allow {TINY}" in said()[1]
    assert place.submit("--data", "folder:/etc") == 2
    assert "not allowed here" in said()[1]


def test_a_run_that_waits_can_not_be_watched_or_fetched(place: Place, said: Said, tmp_path: Path) -> None:
    assert place.submit() == 0
    run = said()[0].split()[1]
    assert execute(["watch", run, *place.options_of("alice")]) == 2
    assert "it waits for the worker of cloud, phone and server; expected one that has started" in said()[1]
    assert execute(["fetch", run, "-o", str(tmp_path / "mine"), *place.options_of("alice")]) == 2
    assert "it has no weights yet; expected one that has ended" in said()[1]


def test_options_that_stay_here(place: Place, said: Said) -> None:
    assert place.submit("--init", "weights.safetensors") == 2
    assert said()[1] == "palmette: --init: weights.safetensors: cannot be sent to a hub; expected none\n"


def test_no_hub_there(place: Place, said: Said) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    assert execute(["ls", "--at", nowhere, "--keys", str(place.keys.folder), "--as", "alice"]) == 1
    (line,) = said()[1].splitlines()
    assert line.startswith(f"palmette: no connection to the hub at {nowhere}: ")


def test_a_run_that_fails_does_not_end_the_hub(place: Place, said: Said) -> None:
    place.start(allowed=AllowedNames())
    assert place.submit() == 0
    assert eventually(lambda: place.state() == "failed", 60)
    assert "is not allowed here" in place.queue.entries()[0].why
    assert execute(["logs", said()[0].split()[1], *place.options_of("screen")]) == 0
    assert "failed: " in said()[0]


def test_a_folder_that_cannot_be_written_does_not_end_the_queue(place: Place) -> None:
    assert place.submit() == 0
    (place.folder / place.queue.entries()[0].run / "log.txt").mkdir()
    assert place.submit() == 0
    place.start(allowed=AllowedNames())
    assert eventually(lambda: place.state() == "failed", 60)


def test_a_hub_of_one_run_keeps_none(runs: Runs, said: Said) -> None:
    with HubWorkers(runs.folder) as place:
        place.keys.issue("alice", role="operator")
        words = ["--at", place.address, "--keys", str(place.keys.folder)]
        assert execute(["ls", *words]) == 1
        assert "keeps no runs; expected one that was started with: palmette hub" in said()[1]
