"""What the owner of a worker lets it take: the words, the hours, and that the worker keeps to them."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
import yaml

from palmette.cli import execute
from palmette.errors import InputError, RunError
from palmette.runtime.data.kept_samples import SampleStore
from palmette.runtime.engines.hub import limits as module
from palmette.runtime.engines.hub.limits import NO_LIMITS, WorkerLimits, limited_cluster, within, worker_limits
from palmette.runtime.worker.cpu_queue import CpuQueue
from palmette.runtime.worker.executor import Executor
from palmette.spec.cluster import Cluster
from palmette.spec.files import load, validated
from palmette.spec.plan import Plan
from tests.control.hub_workers import HubWorkers
from tests.control.run.test_processes import trees
from tests.durations import lasting
from tests.runtime.engines.hub.test_requests import Keeper
from tests.runtime.world import CLUSTER, NODES, TINY, Runs
from tests.testbed.test_namespaces import eventually


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
    with HubWorkers(runs.folder) as made:
        yield made


@pytest.mark.parametrize(
    ("hours", "moment", "inside"),
    [
        ("08:00-17:30", "08:00", True),
        ("08:00-17:30", "17:30", False),
        ("08:00-17:30", "07:59", False),
        ("22:00-07:00", "23:10", True),
        ("22:00-07:00", "06:59", True),
        ("22:00-07:00", "12:00", False),
        ("00:00-00:00", "12:00", True),
    ],
)
def test_hours(hours: str, moment: str, inside: bool) -> None:
    assert within(hours, dt.time.fromisoformat(moment)) is inside


def test_words() -> None:
    found = worker_limits("50%", "2 GiB", "10 GB", "22:00-07:00", True)
    assert found == WorkerLimits(
        cpu_share=0.5, memory_bytes=2**31, storage_bytes=10**10, hours="22:00-07:00", mains=True
    )
    assert worker_limits(None, None, None, None, False) == NO_LIMITS


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (("120%", None, None, None), "cpu"),
        (("0%", None, None, None), "cpu"),
        (("half", None, None, None), "cpu"),
        ((None, "2", None, None), "memory"),
        ((None, None, "-1 GB", None), "storage"),
        ((None, None, None, "7-9"), "hours"),
        ((None, None, None, "25:00-07:00"), "hours"),
    ],
)
def test_words_that_mean_nothing(words: tuple[str | None, ...], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        worker_limits(*words, False)  # type: ignore[arg-type]
    assert [fault.field for fault in caught.value.faults] == [argument]


def test_on_its_battery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_on_battery", lambda: True)
    assert WorkerLimits(mains=True).away() == "its machine is running on battery"
    assert NO_LIMITS.away() is None


@pytest.mark.timing
def test_a_call_with_half_of_the_cpu_is_followed_by_a_rest_of_its_own_length() -> None:
    cpu, began_s = CpuQueue(0.5, rests=True), time.monotonic()
    with cpu.share(0.5):
        time.sleep(0.1)
    assert time.monotonic() - began_s == lasting(0.2, sooner=0.0)


def test_samples_beyond_the_storage_are_refused(tmp_path: Path) -> None:
    store = SampleStore(tmp_path / "kept", 1000)
    store.of("phone").add(0, bytes(500))
    with pytest.raises(RunError, match="no room for more samples of other nodes; expected at most 1 kB"):
        store.of("cloud").add(1, bytes(500))
    store.close()
    store.of("cloud").add(1, bytes(400))
    with pytest.raises(RunError, match="no room"):
        store.of("phone").add(2, bytes(400))
    store.close()


def refused(
    runs: Runs, place: HubWorkers, limits: WorkerLimits, capsys: pytest.CaptureFixture[str], code: int = 2
) -> str:
    place.start(["phone"], limits=limits)
    assert eventually(lambda: "phone" in place.hub.present(), 10)
    arguments = [*runs.arguments(TINY, trees(5)["alone"]), *place.options, "--iterations", "2000", "--quiet"]
    assert execute([*arguments, "-o", str(runs.folder / "out")]) == code
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_plan_that_takes_more_of_the_cpu_is_refused(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(runs, place, WorkerLimits(cpu_share=0.5), capsys)
    expected = "expected at most 0.5, the CPU limit of phone, by the limits of its worker"
    assert line == f"palmette: phases[0].instances[0].cpu_share: 1.0: {expected}"


def test_the_worker_itself_refuses_more_of_the_cpu() -> None:
    expected = "the plan may take 100% of the CPU, its owner allows 50%; expected limits: {cpu: 50%} of this node"
    with pytest.raises(RunError, match=re.escape(expected)):
        WorkerLimits(cpu_share=0.5).refuse_share(1.0)


def test_a_plan_that_takes_more_memory_is_refused(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(runs, place, WorkerLimits(memory_bytes=2**20), capsys)
    assert "does not fit the memory of phone, 1 MiB, by the limits of its worker" in line


def test_a_worker_that_takes_too_much_memory_ends_the_run(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = chain([0], repeat(2**30))  # little when it introduces itself, and too much when it looks
    monkeypatch.setattr(module, "_resident_bytes", lambda: next(taken))
    line = refused(runs, place, WorkerLimits(memory_bytes=2**29), capsys, code=1)
    assert "its worker takes 1024 MiB of memory, its owner allows 512 MiB" in line


def test_a_worker_with_too_much_memory_gives_up_the_iterations_that_were_asked_for(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    run = Executor.run

    def slow(self: Executor, iteration: int) -> None:
        ran.append(iteration)
        time.sleep(0.5)
        run(self, iteration)

    monkeypatch.setattr(Executor, "run", slow)
    monkeypatch.setattr("palmette.runtime.sync.step._BATCHED_S", 600.0)  # an epoch is asked for at once
    monkeypatch.setattr(module, "_resident_bytes", lambda: 2**30 if len(ran) > 2 else 0)
    line = refused(runs, place, WorkerLimits(memory_bytes=2**29), capsys, code=1)
    assert "its worker takes 1024 MiB of memory, its owner allows 512 MiB" in line
    by_then = len(ran)
    place.workers["phone"].close()
    place.join()
    assert len(ran) <= by_then + 2


def test_limits_of_workers_are_those_of_the_nodes() -> None:
    cluster = validated(Cluster, yaml.safe_load(CLUSTER.replace("{tier:", "{memory: 1 GiB, tier:")))
    given = WorkerLimits(cpu_share=0.5, memory_bytes=2**29, storage_bytes=10**9, taken_bytes=2**27)
    found = limited_cluster(cluster, {"phone": given, "cloud": WorkerLimits(memory_bytes=2**40)})
    phone = found.nodes["phone"]
    assert (phone.limits.cpu_share, phone.memory_bytes, phone.storage_bytes) == (0.5, 2**29, 1e9)
    assert phone.reserved_bytes == 2**27
    assert {name: found.nodes[name] == cluster.nodes[name] for name in ("server", "cloud")} == dict.fromkeys(
        ("server", "cloud"), True
    )


def planned(runs: Runs, *more: str) -> Path:
    """A plan for the whole cluster, by a strategy that can make it again."""
    file = runs.folder / "planned.json"
    words = ["--profile", str(runs.profile(TINY)), "--cluster", str(runs.cluster), "--batch", "12", *more]
    assert execute(["plan", "all-cloud", *words, "-o", str(file)]) == 0
    return file


def test_a_run_plans_again_within_the_limits_of_its_workers(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str]
) -> None:
    place.start(limits=WorkerLimits(cpu_share=0.5))
    assert not place.hub.wait_for(NODES, 10)
    file, out = planned(runs), runs.folder / "out"
    words = [str(file), *place.options, "--iterations", "2", "--trust-code", "-o", str(out)]
    assert execute(["run", *words]) == 0
    record = json.loads((out / "run.json").read_text())
    assert {each["cpu_share"] for each in record["plan"]["phases"][0]["instances"]} == {0.5}
    assert record["changes"][0]["reason"].startswith("the plan takes more than the owner of phone, server and cloud")
    assert "planned again by" in capsys.readouterr().err


def test_a_plan_keeps_to_the_limits_of_workers_at_a_hub(runs: Runs, place: HubWorkers) -> None:
    place.keys.issue("alice", role="operator")
    place.hub.keep_runs(Keeper())
    place.start(limits=WorkerLimits(cpu_share=0.5))
    assert not place.hub.wait_for(NODES, 10)
    made = load(Plan, planned(runs, "--at", place.address, "--keys", str(place.keys.folder)))
    assert {each.cpu_share for each in made.phases[0].instances} == {0.5}


def test_a_worker_leaves_when_its_hours_end_and_the_hub_knows_its_limits(
    place: HubWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    away: list[str] = []
    monkeypatch.setattr(WorkerLimits, "away", lambda _: away[0] if away else None)
    place.start(["phone"], limits=WorkerLimits(hours="22:00-07:00", cpu_share=0.25))
    assert eventually(lambda: "phone" in place.hub.present(), 10)
    (known,) = place.hub.workers()
    assert json.loads(known.limits.model_dump_json())["cpu_share"] == 0.25
    away.append("it works from 22:00 to 07:00")
    assert eventually(lambda: not place.hub.present(), 10)
    assert eventually(lambda: place.said["phone"][-1] == "waiting: it works from 22:00 to 07:00", 10)
