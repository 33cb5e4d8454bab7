"""Workers at a hub that leave, die, freeze or come back: the run comes to the weights of one process."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from palmette.cli import execute
from palmette.control.adapt import supervise
from palmette.runtime.data.kept_samples import KeptSamples, file_name
from palmette.spec.plan import Phase
from tests.control.adapt.test_recovery import CLUSTER, KEPT, REPLICAS, Eventful
from tests.control.hub_workers import HubWorkers, worker_process
from tests.control.run.test_resume import when
from tests.runtime.world import Runs
from tests.testbed.test_namespaces import eventually


class AtHub(Eventful):
    """A run at a hub, to which something happens after ten iterations."""

    def __init__(self, runs: Runs, place: HubWorkers, iterations: int = 60, tree: Phase = REPLICAS) -> None:
        super().__init__(runs, tree, iterations)
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


def kept(place: HubWorkers) -> set[str]:
    """The nodes that have samples of others on their disks."""
    return {path.parts[-4] for path in place.machines.glob("*/palmette-samples-*/*/*")}


@pytest.mark.slow
def test_a_worker_that_a_new_plan_leaves_out_deletes_its_samples_when_the_run_ends(
    runs: Runs, place: HubWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cloud's worker stays connected, but somebody takes it out of the cluster file."""
    monkeypatch.setattr(supervise, "_POLL_EVERY_S", 0.02)
    eventful = AtHub(runs, place.start(), iterations=200, tree=KEPT)
    seen: list[set[str]] = []

    def leave_out() -> None:
        seen.append(kept(place))
        two = runs.cluster.read_text().splitlines()
        runs.cluster.write_text("\n".join(line for line in two if "cloud" not in line))

    assert eventful.go(leave_out) == 0
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert "cloud" not in change["nodes"]
    assert "cloud" in eventful.record["keepers"]
    assert place.hub.connection("cloud") is not None
    assert (seen, kept(place)) == ([{"server", "cloud"}], set())


def test_workers_delete_their_samples_when_they_stop_or_work_for_another_run(runs: Runs, place: HubWorkers) -> None:
    """A run that fails may be continued, and finds the samples; if it is not, they stay no longer than need be."""
    eventful = AtHub(runs, place.start(), tree=KEPT)
    assert eventful.go(place.workers["cloud"].close, "--no-replan") == 1
    assert kept(place) == {"server"}
    place.start(["cloud"])
    assert execute([*eventful.arguments, *place.options, "--iterations", "1", "-o", str(runs.folder / "other")]) == 0
    assert kept(place) == set()


def test_a_worker_that_starts_deletes_what_one_before_has_left(place: HubWorkers) -> None:
    left = place.machines / "cloud" / "palmette-samples-0123456789abcdef" / file_name("cloud")
    KeptSamples(left / file_name("phone")).close()
    place.start(["cloud"])
    assert eventually(lambda: not left.parent.exists(), within_s=10)


def test_with_keep_samples_workers_keep_them_after_their_end(runs: Runs, place: HubWorkers) -> None:
    eventful = AtHub(runs, place.start(), iterations=2, tree=KEPT)
    assert execute([*eventful.arguments, *place.options, "--keep-samples", "mine", "-o", str(eventful.out)]) == 0
    for worker in place.workers.values():
        worker.close()
    place.join()
    found = {path.parts[-4] for path in place.machines.glob("*/palmette-kept-samples-*/*/*")}
    assert (found, kept(place)) == ({"server", "cloud"}, set())


@pytest.mark.slow
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
        line = place.hub.connection("cloud")
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
