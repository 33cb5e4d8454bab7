"""Workers at a hub that leave, die, freeze or come back: the run comes to the weights of one process."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from palmette.cli import execute
from tests.control.adapt.test_recovery import CLUSTER, REPLICAS, Eventful
from tests.control.hub_workers import HubWorkers, worker_process
from tests.control.run.test_resume import when
from tests.runtime.world import Runs
from tests.testbed.test_namespaces import eventually


class AtHub(Eventful):
    """A run at a hub, to which something happens after ten iterations."""

    def __init__(self, runs: Runs, place: HubWorkers, iterations: int = 60) -> None:
        super().__init__(runs, REPLICAS, iterations)
        runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
        self.place = place

    def go(self, happens: Callable[[], None], *more: str) -> int:
        watching = when(self.out / "metrics.jsonl", 10, happens)
        code = execute([*self.arguments, *self.place.options, *more, "-o", str(self.out)])
        watching.join()
        return code


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    with HubWorkers(runs.folder) as made:
        yield made


@pytest.mark.slow
def test_without_a_worker_that_leaves(runs: Runs, place: HubWorkers) -> None:
    eventful = AtHub(runs, place.start())
    assert eventful.go(place.workers["cloud"].close) == 0
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert "cloud" not in change["nodes"]
    assert change["iteration"] >= 10  # not from the checkpoint of the beginning


def test_the_hub_stays_the_way_between_those_that_are_left(runs: Runs, place: HubWorkers) -> None:
    eventful = AtHub(runs, place.start())
    described = runs.cluster.read_text().partition("links:")[0] + "  hub: {tier: edge, relay: true}\nlinks:\n"
    ways = [f"  - {{between: [{node}, hub], bandwidth: 100 Mbit/s}}\n" for node in ("phone", "server", "cloud")]
    runs.cluster.write_text(described + "".join(ways))
    assert eventful.go(place.workers["cloud"].close) == 0
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert set(change["nodes"]) <= {"phone", "server"}


@pytest.mark.slow
def test_a_worker_whose_connection_breaks_dials_in_again_and_takes_part(runs: Runs, place: HubWorkers) -> None:
    eventful = AtHub(runs, place.start(), iterations=400)

    def broken() -> None:
        line = place.hub.line("cloud")
        assert line is not None
        place.hub.end(line)

    assert eventful.go(broken) == 0
    eventful.assert_nothing_is_missing()
    lost, joined = eventful.record["changes"]
    assert "cloud" not in lost["nodes"]
    assert (joined["reason"], "cloud" in joined["nodes"]) == ("a node has joined", True)
    assert sum("connected" in line for line in place.said["cloud"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "freezes"])
def test_without_a_worker_that(runs: Runs, place: HubWorkers, number: int) -> None:
    place.start(["phone", "server"])
    process = worker_process(place, "cloud")
    try:
        assert eventually(lambda: "cloud" in place.hub.present(), 60)
        eventful = AtHub(runs, place)
        assert eventful.go(lambda: process.send_signal(number)) == 0
    finally:
        process.kill()
        process.communicate()
    eventful.assert_nothing_is_missing()
    assert "cloud" not in eventful.record["changes"][0]["nodes"]


def test_a_run_that_was_stopped_is_resumed_with_the_same_workers(runs: Runs, place: HubWorkers) -> None:
    eventful = AtHub(runs, place.start())
    stopped = eventful.go(lambda: signal.raise_signal(signal.SIGINT), "--no-replan")
    assert stopped == 1
    assert execute(["run", "--resume", str(eventful.out), "--quiet"]) == 0
    eventful.assert_nothing_is_missing()


def test_a_worker_that_is_revoked_is_out_within_seconds(place: HubWorkers) -> None:
    place.start(["phone"])
    assert eventually(lambda: "phone" in place.hub.present(), 20)
    place.keys.revoke("phone")
    assert eventually(lambda: "phone" in place.errors, 20)
    assert "it was revoked" in str(place.errors["phone"])
    assert "phone" not in place.hub.present()


@pytest.mark.slow
def test_palmette_worker_once(runs: Runs, place: HubWorkers) -> None:
    """Three processes, each with ``--once``, end after one run with exit code 0."""
    processes = {node: worker_process(place, node, "--once") for node in ("phone", "server", "cloud")}
    try:
        eventful = AtHub(runs, place, iterations=12)
        assert eventful.go(lambda: None) == 0
        place.hub.close()
        for process in processes.values():
            said = process.communicate(timeout=30)[1]
            assert process.returncode == 0, said
            assert [line.split()[1] for line in said.splitlines()] == ["connected", "the"]
    finally:
        for process in processes.values():
            process.kill()
    eventful.assert_nothing_is_missing()
