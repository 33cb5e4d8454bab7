"""Hosts of a Ray cluster that die, freeze, are cut off, lack memory or join: the run comes to the same weights."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.control.adapt.test_recovery import ADAM, ASKED, CHOSEN, CLUSTER, REPLICAS, no_more_memory
from tests.control.ray_cluster import LATE, WORKER, RayCluster
from tests.control.run.test_ray import _why_not
from tests.runtime.rig import off
from tests.runtime.world import TINY, Runs, alone, lines, losses, weights
from tests.testbed.test_namespaces import eventually

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.namespaces,
    pytest.mark.slow,
    pytest.mark.timing,  # BACK_WITHIN_S
    pytest.mark.timeout(300),
    pytest.mark.skipif(_why_not() is not None, reason=str(_why_not())),
]

BACK_WITHIN_S = 30.0


@pytest.fixture
def cluster(ray_cluster: RayCluster) -> Iterator[RayCluster]:
    """All three hosts; what a test, or one that failed before it, did to the cloud's is mended."""
    ray_cluster.mend("cloud")
    yield ray_cluster
    ray_cluster.mend("cloud")


class Eventful:
    """A run over TLS, from the head, by a plan that ``hybrid`` is said to have made; something happens to it."""

    def __init__(self, runs: Runs, cluster: RayCluster, iterations: int = 400, model: str = TINY) -> None:
        runs.cluster.write_text(CLUSTER)
        self._iterations = iterations
        self.cluster, self.out = cluster, runs.folder / "out"
        self._arguments = [*runs.arguments(model, REPLICAS)[:-2], *CHOSEN, "--quiet", "--engine", "ray"]
        self._arguments += ["-o", str(self.out), "--iterations", str(iterations)]
        plan = Path(self._arguments[1])
        plan.write_text(json.dumps({**json.loads(plan.read_text()), "strategy": "hybrid", "asked": ASKED}))
        profile = Path(self._arguments[self._arguments.index("--profile") + 1])
        known = json.loads(profile.read_text())
        known["nodes"][LATE] = known["nodes"]["cloud"]
        profile.write_text(json.dumps(known))
        self.back_s: float | None = None

    def run(self, happens: Callable[[], None], *more: str) -> None:
        """Run to the end; ``back_s`` is how long after the fault the next iteration is done."""
        given = more or ("--transport", "tls", "--keys", str(self.cluster.keys.folder))
        with ThreadPoolExecutor(1) as watching:
            watched = watching.submit(self._watch, happens)
            done = self.cluster.palmette(*self._arguments, *given)
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
            watched.result()

    def _watch(self, happens: Callable[[], None]) -> None:
        metrics = self.out / "metrics.jsonl"
        assert eventually(lambda: metrics.exists() and _many(metrics) >= 10, 120)
        happens()
        began_s = time.monotonic()
        assert eventually(lambda: self.record["changes"], 120)
        before = _many(metrics)
        assert eventually(lambda: _many(metrics) != before, 120)
        self.back_s = time.monotonic() - began_s

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "run.json").read_text())
        return found

    def assert_nothing_is_missing(self) -> None:
        """All that was promised; and nobody is left."""
        self.assert_weights_are_those_of_one_process()
        assert self.back_s is not None
        assert self.back_s < BACK_WITHIN_S
        for host in ("server", "phone"):
            assert eventually(lambda host=host: not self.cluster.pids(host, WORKER), 10), host

    def assert_weights_are_those_of_one_process(self) -> None:
        """And every iteration is written down once."""
        expected_losses, expected = alone(TINY, 12, self._iterations, ADAM)  # the others compute the same, later
        assert off(weights(self.out), expected) <= 1e-10
        assert losses(self.out) == pytest.approx(expected_losses, rel=1e-9)
        metrics = [line["iteration"] for line in lines(self.out / "metrics.jsonl") if "accuracy" not in line]
        assert metrics == list(range(self._iterations))
        assert self.record["ended"] == "done"


def _many(metrics: Path) -> int:
    return metrics.read_text().count("\n")


def signalled(cluster: RayCluster, number: int, words: str) -> Callable[[], None]:
    """Something that sends a signal to the processes of the cloud's host with these words."""
    return lambda: cluster.signal("cloud", number, words)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        pytest.param(signal.SIGKILL, WORKER, id="a worker dies"),
        pytest.param(signal.SIGSTOP, WORKER, id="a worker freezes", marks=pytest.mark.thorough),
        pytest.param(signal.SIGKILL, "raylet", id="its Ray dies", marks=pytest.mark.thorough),
        pytest.param(signal.SIGKILL, "", id="a host dies"),
        # It is silent, as a host that is cut off.
        pytest.param(signal.SIGSTOP, "", id="a host freezes", marks=pytest.mark.thorough),
    ],
)
def test_a_host_or_worker_that_dies_or_freezes(
    runs: Runs, cluster: RayCluster, number: signal.Signals, words: str
) -> None:
    eventful = Eventful(runs, cluster)
    eventful.run(signalled(cluster, number, words))
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert "cloud" not in eventful.record["plan"]["inputs"]["cluster"]["nodes"]
    assert "node cloud" in change["reason"]
    assert change["iteration"] >= 10  # not from the checkpoint of the beginning


@pytest.mark.parametrize("transport", ["tls", pytest.param("gloo", marks=pytest.mark.thorough)])
def test_a_host_that_is_cut_off(runs: Runs, cluster: RayCluster, transport: str) -> None:
    eventful = Eventful(runs, cluster)
    more = () if transport == "tls" else ("--transport", "gloo", "--insecure")
    eventful.run(lambda: cluster.cut("cloud"), *more)
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert "cloud" not in change["nodes"]


def test_a_host_that_comes_back_takes_part_again(runs: Runs, cluster: RayCluster) -> None:
    eventful = Eventful(runs, cluster, iterations=700, model="tests.runtime.networks:slow")

    def leave_and_come_back() -> None:
        cluster.leave("cloud")
        assert eventually(lambda: eventful.record["changes"], 60)
        cluster.come_back("cloud")

    eventful.run(leave_and_come_back)
    eventful.assert_nothing_is_missing()
    lost, joined = eventful.record["changes"]
    assert "cloud" not in lost["nodes"]
    assert joined["reason"] == "a node has joined"
    assert "cloud" in eventful.record["plan"]["inputs"]["cluster"]["nodes"]


def test_a_node_that_is_new_takes_part_once_its_host_is_there(runs: Runs, cluster: RayCluster) -> None:
    """It stands in the cluster file before; until its host joins, nothing changes."""
    eventful = Eventful(runs, cluster, iterations=700, model="tests.runtime.networks:slow")

    def join() -> None:
        before, links = CLUSTER.split("links:")
        link = f"  - {{between: [server, {LATE}], bandwidth: 100 Mbit/s}}\n"
        runs.cluster.write_text(
            f"{before}  {LATE}: {{tier: edge, power: {{idle: 7 W, busy: 22 W}}}}\nlinks:{links}{link}"
        )
        time.sleep(2)
        assert eventful.record["changes"] == []
        cluster.join(LATE)

    try:
        eventful.run(join)
    finally:
        cluster.leave(LATE)
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert change["reason"] == "a node has joined"
    assert LATE in eventful.record["plan"]["inputs"]["cluster"]["nodes"]


def test_a_worker_that_runs_out_of_memory(runs: Runs, cluster: RayCluster) -> None:
    eventful = Eventful(runs, cluster, model="tests.runtime.networks:roomy")

    def exhaust() -> None:
        (pid,) = cluster.pids("cloud", WORKER)
        no_more_memory("cloud")({"cloud": pid})

    eventful.run(exhaust)
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert change["reason"].startswith("node cloud: out of memory: ")
