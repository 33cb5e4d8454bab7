"""A run outlives the loss of nodes, and ends with the weights of one that never lost any."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from palmette.cli import execute
from palmette.control.adapt import supervise
from palmette.runtime.options import Options
from palmette.spec.plan import Phase
from tests.control.run.test_processes import trees
from tests.control.run.test_resume import when
from tests.cost.small import instance, phase, source
from tests.plan.problems import LITTLE
from tests.runtime.rig import off
from tests.runtime.world import TINY, Runs, alive, alone, hired, lines, losses, weights

CLUSTER = """\
nodes:
  phone: {tier: device, power: {idle: 2 W, busy: 5 W}, source: {samples: 1500}}
  server: {tier: edge, power: {idle: 7 W, busy: 22 W}}
  cloud: {tier: cloud, power: {idle: 90 W, busy: 300 W}}
links:
  - {between: [phone, server], bandwidth: 200 Mbit/s}
  - {between: [server, cloud], bandwidth: 100 Mbit/s}
"""
ASKED = {"goal": "time", "options": {"lossy": False, "effort": LITTLE}}
ADAM = Options(optimizer="adam", lr=0.001, seed=3, dtype="float64")
CHOSEN = ["--optimizer", "adam", "--lr", "0.001", "--seed", "3", "--dtype", "float64"]
REPLICAS = phase(
    *(source("phone", 4, at) for at in ("phone", "server", "cloud")),
    *(instance(at, 1, 5, at) for at in ("phone", "server", "cloud")),
)


KEPT = REPLICAS.model_copy(
    update={"sources": tuple(e.model_copy(update={"delivery": "once"}) for e in REPLICAS.sources), "ahead": True}
)


class Eventful:
    """A run by a plan that ``hybrid`` is said to have made, to which something happens after ten iterations."""

    def __init__(self, runs: Runs, tree: Phase, iterations: int = 60, model: str = TINY) -> None:
        runs.cluster.write_text(CLUSTER)
        self.out, self.iterations, self._model = runs.folder / "out", iterations, model
        self.arguments = [*runs.arguments(model, tree), *CHOSEN, "--iterations", str(iterations), "--quiet"]
        plan = Path(self.arguments[1])
        plan.write_text(json.dumps({**json.loads(plan.read_text()), "strategy": "hybrid", "asked": ASKED}))

    def run(self, happens: Callable[[dict[str, int]], None], *more: str) -> int:
        """The exit code; nobody is left behind."""
        with hired() as crews:
            watching = when(self.out / "metrics.jsonl", 10, lambda: happens(crews[0].pids))
            code = execute([*self.arguments, *more, "-o", str(self.out)])
            watching.join()
        assert not any(alive(pid) for crew in crews for pid in crew.pids.values())
        return code

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "run.json").read_text())
        return found

    def assert_nothing_is_missing(self, options: Options = ADAM) -> None:
        """The weights are those of one process, and every iteration is written down once."""
        expected_losses, expected = alone(self._model, 12, self.iterations, options)
        assert off(weights(self.out), expected) <= 1e-10
        assert losses(self.out) == pytest.approx(expected_losses, rel=1e-9)
        metrics = [line["iteration"] for line in lines(self.out / "metrics.jsonl") if "accuracy" not in line]
        assert metrics == list(range(self.iterations))
        assert self.record["ended"] == "done"


def end(node: str, number: int = signal.SIGKILL) -> Callable[[dict[str, int]], None]:
    return lambda pids: os.kill(pids[node], number)


@pytest.mark.parametrize("node", ["cloud", "server"])
def test_after_a_kill_the_living_go_on_from_the_iteration_before(runs: Runs, node: str) -> None:
    eventful = Eventful(runs, REPLICAS)
    assert eventful.run(end(node)) == 0
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert node not in change["nodes"]
    assert f"node {node}" in change["reason"]
    assert change["iteration"] >= 10  # not from the checkpoint of the beginning


@pytest.mark.slow
def test_schedule_clipping_and_accumulation_outlive_a_lost_node(runs: Runs) -> None:
    eventful = Eventful(runs, REPLICAS, iterations=40)
    flags = ["--optimizer", "nadam", "--schedule", "cosine", "--clip-norm", "0.1", "--accumulate", "7"]
    assert eventful.run(end("cloud"), *flags) == 0
    options = replace(ADAM, optimizer="nadam", schedule="cosine", clip_norm=0.1, accumulate=7)
    eventful.assert_nothing_is_missing(options)
    assert len(eventful.record["changes"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("node", ["cloud", "server"])
def test_a_node_that_kept_samples_may_die(runs: Runs, node: str) -> None:
    eventful = Eventful(runs, KEPT)
    assert eventful.run(end(node)) == 0
    eventful.assert_nothing_is_missing()
    assert len(eventful.record["changes"]) == 1
    assert not (eventful.out / "samples").exists()


@pytest.mark.parametrize("damage", ["changed", "cut off", "replaced"])
def test_a_node_may_come_back_with_damaged_samples(runs: Runs, damage: str) -> None:
    eventful = Eventful(runs, KEPT)
    assert eventful.run(end("cloud"), "--no-replan") == 1
    (kept,) = (eventful.out / "samples").glob("cloud-*/phone-*")
    content = kept.read_bytes()
    assert content
    third = len(content) // 3
    damaged = {
        "changed": content[:third] + bytes(each ^ 0xFF for each in content[third : 2 * third]) + content[2 * third :],
        "cut off": content[:third],
        "replaced": bytes(range(256)) * 8,
    }
    kept.write_bytes(damaged[damage])
    assert execute(["run", "--resume", str(eventful.out), "--quiet"]) == 0
    eventful.assert_nothing_is_missing()
    assert not (eventful.out / "samples").exists()


def apart(**more: Any) -> Phase:
    """Two replicas that take two steps before they agree; an epoch of five iterations has three windows."""
    parts = [source("phone", 200, "phone"), source("phone", 100, "server")]
    return phase(
        *parts, *(instance(at, 1, 5, at) for at in ("phone", "server")), sync="every", every=2, server="cloud", **more
    )


@pytest.mark.slow
def test_windows_go_on_from_the_last_checkpoint_to_the_same_weights(runs: Runs) -> None:
    """Optimizer state of both replicas, the outer momentum and what coded differences left out included."""
    eventful = Eventful(runs, apart(outer={}, exchange={"codec": "topk", "ratio": 0.2}), iterations=40)
    assert eventful.run(end("server"), "--no-replan") == 1
    assert execute(["run", "--resume", str(eventful.out), "--quiet"]) == 0
    assert execute([*eventful.arguments, "-o", str(runs.folder / "untouched")]) == 0
    assert off(weights(eventful.out), weights(runs.folder / "untouched")) == 0
    assert eventful.record["iterations"] == 40


@pytest.mark.slow
def test_another_plan_goes_on_from_the_last_checkpoint_of_windows(runs: Runs) -> None:
    eventful = Eventful(runs, apart(exchange={"codec": "int8"}), iterations=40)
    assert eventful.run(end("cloud")) == 0
    assert (eventful.record["ended"], eventful.record["iterations"]) == ("done", 40)
    assert [change["nodes"] for change in eventful.record["changes"]] != []
    metrics = [line["iteration"] for line in lines(eventful.out / "metrics.jsonl") if "accuracy" not in line]
    assert metrics == list(range(40))


@pytest.mark.timing
def test_a_frozen_node_is_left_behind(runs: Runs) -> None:
    eventful = Eventful(runs, REPLICAS)
    assert eventful.run(end("cloud", signal.SIGSTOP)) == 0
    eventful.assert_nothing_is_missing()


def no_more_memory(node: str) -> Callable[[dict[str, int]], None]:
    """Let a worker have no more than it has."""

    def happen(pids: dict[str, int]) -> None:
        pages = int(Path(f"/proc/{pids[node]}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 2**26
        resource.prlimit(pids[node], resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

    return happen


@pytest.mark.slow
def test_a_node_that_runs_out_of_memory_is_left_behind(runs: Runs) -> None:
    eventful = Eventful(runs, REPLICAS, model="tests.runtime.networks:roomy")
    assert eventful.run(no_more_memory("cloud")) == 0
    eventful.assert_nothing_is_missing()
    (change,) = eventful.record["changes"]
    assert change["reason"].startswith("node cloud: out of memory: ")
    assert "cloud" not in change["nodes"]
    assert change["iteration"] >= 10


def test_an_error_in_the_network_ends_a_run_that_could_be_planned_again(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would come again on every other node."""
    tree = phase(source("phone", 12, "a"), instance("a", 1, 2, "phone", "b"), instance("b", 3, 3, "cloud"))
    eventful = Eventful(runs, tree, model="tests.runtime.networks:fails")
    assert execute([*eventful.arguments, "-o", str(eventful.out)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("palmette: node phone: ValueError: something is wrong here; continue with: ")
    assert said.count("\n") == 1
    assert eventful.record["changes"] == []


@pytest.mark.slow
@pytest.mark.parametrize("node", ["server", "cloud"])
def test_the_only_copy_of_a_layer_comes_from_the_checkpoint(runs: Runs, node: str) -> None:
    eventful = Eventful(runs, trees(5)["cut in three"])
    assert eventful.run(end(node)) == 0
    eventful.assert_nothing_is_missing()
    assert eventful.record["changes"][0]["iteration"] == 0


@pytest.mark.slow
def test_two_at_once(runs: Runs) -> None:
    eventful = Eventful(runs, REPLICAS, iterations=100)

    def two(pids: dict[str, int]) -> None:
        os.kill(pids["cloud"], signal.SIGKILL)
        os.kill(pids["server"], signal.SIGKILL)

    assert eventful.run(two) == 0
    eventful.assert_nothing_is_missing()
    lost = {"cloud", "server"} - set(eventful.record["changes"][-1]["nodes"])
    assert lost  # whoever is not missed at once is hired anew with the others


def test_lost_data_ends_the_run_with_a_checkpoint(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    eventful = Eventful(runs, REPLICAS)
    assert eventful.run(end("phone")) == 1
    said = capsys.readouterr().err
    assert said.startswith("palmette: node phone: its worker was killed by SIGKILL")
    assert "--allow-data-loss" in said
    assert "continue with: palmette run --resume" in said
    assert execute(["run", "--resume", str(eventful.out), "--quiet"]) == 0
    eventful.assert_nothing_is_missing()


@pytest.mark.slow
def test_where_data_may_be_lost_the_run_goes_on_without(runs: Runs) -> None:
    """Two nodes have data; the one that is lost takes its own along, and batches are as large as before."""
    eventful = Eventful(
        runs, phase(source("phone", 6, "all"), source("server", 6, "all"), instance("all", 1, 5, "cloud"))
    )
    runs.cluster.write_text(CLUSTER.replace("server: {tier: edge,", "server: {tier: edge, source: {samples: 500},"))
    assert eventful.run(end("phone"), "--allow-data-loss") == 0
    assert [line["samples"] for line in lines(eventful.out / "metrics.jsonl") if "accuracy" not in line] == [12] * 60
    (phase_,) = eventful.record["plan"]["phases"]
    assert {feed["node"] for feed in phase_["sources"]} == {"server"}
    assert "phone" not in eventful.record["changes"][0]["nodes"]


def test_whoever_does_not_want_another_plan_is_stopped(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    eventful = Eventful(runs, REPLICAS)
    assert eventful.run(end("cloud"), "--no-replan") == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert execute(["run", "--resume", str(eventful.out), "--quiet"]) == 0
    eventful.assert_nothing_is_missing()


@pytest.mark.slow
def test_a_node_that_joins_takes_part(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """At first the phone is alone; then somebody adds the others to the cluster file."""
    monkeypatch.setattr(supervise, "_POLL_EVERY_S", 0.02)  # noticed long before the run ends
    eventful = Eventful(runs, trees(5)["alone"], iterations=300)
    runs.cluster.write_text("\n".join(CLUSTER.splitlines()[:2]) + "\n")

    def join(_: dict[str, int]) -> None:
        time.sleep(0.01)
        runs.cluster.write_text(CLUSTER)

    assert eventful.run(join) == 0
    assert eventful.record["ended"] == "done"
    assert [change["reason"] for change in eventful.record["changes"]] == ["the cluster file has changed"]
    assert set(eventful.record["plan"]["inputs"]["cluster"]["nodes"]) == {"phone", "server", "cloud"}
    assert len(losses(eventful.out)) == 300
