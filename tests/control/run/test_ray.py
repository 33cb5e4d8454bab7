"""A real Ray cluster on three hosts: runs and profiles there, a lost worker is named, strangers stay outside."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from benchmarks.soak.faults import GARBAGE
from palmette.errors import InputError
from palmette.runtime.data.kept_samples import KeptSamples, file_name
from palmette.runtime.data.left_samples import run_folder
from palmette.runtime.options import Options
from palmette.testbed import iproute
from tests.control.ray_cluster import HOSTS, WORKER, RayCluster
from tests.control.run.test_resume import when
from tests.control.up.test_engines import TRAINING
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off, relatively_off
from tests.runtime.world import TINY, Runs, alone, losses, weights


def _why_not() -> str | None:
    try:
        iproute.require_namespaces()
    except InputError as error:
        return str(error)
    return None


pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(240),
    pytest.mark.skipif(_why_not() is not None, reason=str(_why_not())),
]

TREE = phase(
    source("phone", 5, "S"),
    source("phone", 7, "L"),
    instance("S", 1, 2, "phone", "O"),
    instance("L", 1, 2, "server", "O"),
    instance("O", 3, 5, "cloud"),
)
# Writes to PyTorch's own store, if one answers at a port.
WRITING = """
import sys, datetime
from torch.distributed import TCPStore
for port in sys.argv[2:]:
    try:
        store = TCPStore(sys.argv[1], int(port), is_master=False, timeout=datetime.timedelta(seconds=1))
        store.set("0/0", "a stranger's")
        print(port)
    except Exception:
        pass
"""
OPTIONS = Options(optimizer="momentum", lr=0.05, seed=3, dtype="float64")

DELETING = """
import sys
from pathlib import Path
from palmette.runtime.engines.ray.hosts import Hosts
Hosts(["phone"]).delete_samples(Path(sys.argv[1]), ["server", "cloud", "nobody"])
"""


@pytest.fixture
def cluster(ray_cluster: RayCluster) -> RayCluster:
    return ray_cluster


def arguments(runs: Runs, out: str, iterations: int, *more: str) -> list[str]:
    chosen = ["--optimizer", OPTIONS.optimizer, "--lr", str(OPTIONS.lr), "--seed", "3", "--dtype", "float64"]
    asked = ["--engine", "ray", "--iterations", str(iterations), "--quiet", "-o", str(runs.folder / out)]
    return [*runs.arguments(TINY, TREE)[:-2], *chosen, *asked, *more]


def assert_equals_one_process(out: Path) -> None:
    expected_losses, expected = alone(TINY, TREE.batch, 20, OPTIONS)
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) <= 1e-10


def test_a_run_over_gloo_equals_one_process_and_its_store_is_shut_to_strangers(cluster: RayCluster, runs: Runs) -> None:
    written: list[str] = []

    def write() -> None:
        ports = cluster.listening("server")
        written.append(cluster.stranger(WRITING, cluster.addresses["server"], *map(str, ports)).stdout)

    watching = when(runs.folder / "gloo" / "metrics.jsonl", 1, write)
    done = cluster.palmette(*arguments(runs, "gloo", 20, "--insecure"))
    watching.join(60)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert written == [""]
    assert_equals_one_process(runs.folder / "gloo")


def test_gloo_between_hosts_is_refused_unless_the_user_says_so(cluster: RayCluster, runs: Runs) -> None:
    done = cluster.palmette(*arguments(runs, "none", 1))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("palmette: --insecure: not given: phone (10.78.1.2), server (10.78.0.2) and cloud")
    assert done.stderr.endswith("and elsewhere --transport tls\n")
    assert not (runs.folder / "none").exists()


def test_a_run_over_tls_equals_one_process_and_is_deaf_to_strangers(cluster: RayCluster, runs: Runs) -> None:
    """While it runs, somebody on the network speaks garbage to every open port of every host."""
    disturbed: list[int] = []

    def disturb() -> None:
        for host in HOSTS:
            ports = cluster.listening(host)
            cluster.stranger(GARBAGE, cluster.addresses[host], *map(str, ports))
            disturbed.extend(ports)

    watching = when(runs.folder / "tls" / "metrics.jsonl", 1, disturb)
    done = cluster.palmette(*arguments(runs, "tls", 20, "--transport", "tls", "--keys", str(cluster.keys.folder)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    watching.join(60)
    assert len(disturbed) > len(HOSTS)
    assert_equals_one_process(runs.folder / "tls")
    assert all(cluster.pids(host, "raylet") for host in HOSTS)


def test_a_host_deletes_what_it_kept_when_its_last_phase_is_done(cluster: RayCluster, runs: Runs) -> None:
    phases = [phase(source("phone", 12, "I", delivery="once"), instance("I", 1, 5, at)) for at in ("server", "cloud")]
    out, found = runs.folder / "out", []

    def look() -> None:
        kept = (runs.folder / "temporary").glob("palmette-samples-*/*")
        found.append({path.name.partition("-")[0] for path in kept})

    watching = [when(out / "metrics.jsonl", many, look) for many in (1, 4 + 1 + 1)]  # four, and an evaluation
    asked = ["--engine", "ray", "--insecure", "--iterations", "4", "--quiet", "-o", str(out)]
    done = cluster.palmette(*runs.arguments(TINY, *phases)[:-2], *asked)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for each in watching:
        each.join(10)
    assert found == [{"server"}, {"cloud"}]


def test_hosts_that_a_run_has_left_out_delete_what_they_kept(cluster: RayCluster, runs: Runs) -> None:
    folder = run_folder(runs.folder, "0123456789abcdef")
    for host in HOSTS:
        KeptSamples(folder / file_name(host) / file_name("phone")).close()
    cluster.python(DELETING, str(folder))
    assert [path.name for path in folder.iterdir()] == [file_name("phone")]


def test_a_node_is_measured_where_it_is(cluster: RayCluster, runs: Runs) -> None:
    runs.cluster.write_text("nodes:\n  phone: {tier: device}\n  cloud: {tier: cloud, hardware: nuc-i3-7100u-1}\n")
    done = cluster.palmette("profile", TINY, "--cluster", str(runs.cluster), "--engine", "ray", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    nodes = json.loads(done.stdout)["nodes"]
    assert {name: times["source"] for name, times in nodes.items()} == dict.fromkeys(("phone", "cloud"), "measured")
    assert nodes["phone"]["forward_s"] != nodes["cloud"]["forward_s"]  # each measured its own


def test_devices_pretrain_where_they_are(cluster: RayCluster, runs: Runs) -> None:
    power = "power: {idle: 1 W, busy: 2 W}"
    nodes = f"nodes:\n  phone: {{tier: device, {power}}}\n  cloud: {{tier: cloud, {power}}}\n"
    runs.cluster.write_text(nodes + "links:\n  - {between: [phone, cloud], bandwidth: 100 Mbit/s}\n")
    lengths = ["--warmup", "1", "--timed", "3", "--counted", "0", "--steps", "50", "--batch", "8"]
    output = str(runs.folder / "m.json")
    done = cluster.palmette(
        "pretrain",
        TINY,
        "--cluster",
        str(runs.cluster),
        "--engine",
        "ray",
        "--insecure",
        *lengths,
        "--json",
        "-o",
        output,
    )
    assert done.returncode == 0, done.stderr
    devices = json.loads(done.stdout)["devices"]
    assert {name: device["origin"]["steps"] for name, device in devices.items()} == dict.fromkeys(
        ("phone", "cloud"), "measured on its host"
    )
    assert devices["phone"]["bandwidth_bps"]["cloud"] > 0


@pytest.mark.timing
def test_a_worker_that_is_killed_is_named(cluster: RayCluster, runs: Runs) -> None:
    killed_s: list[float] = []

    def kill() -> None:
        killed_s.append(time.time())
        for pid in cluster.pids("phone", WORKER):
            os.kill(pid, signal.SIGKILL)

    watching = when(runs.folder / "out" / "metrics.jsonl", 5, kill)
    done = cluster.palmette(*arguments(runs, "out", 1_000_000, "--insecure"))
    watching.join()
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()[-1]
    assert said.startswith("palmette: node phone: its worker died, or its host is gone; continue with: ")
    assert (runs.folder / "out" / "run.json").stat().st_mtime - killed_s[0] < 5
    assert not cluster.pids("cloud", WORKER)


def test_without_the_token_nobody_gets_in(cluster: RayCluster, runs: Runs) -> None:
    extra = {"RAY_AUTH_MODE": "disabled", "RAY_NUM_REDIS_GET_RETRIES": "2"}
    done = cluster.palmette(*arguments(runs, "none", 1, "--insecure"), extra=extra)
    assert (done.returncode, done.stdout) == (2, "")
    expected = "the cluster's token is missing or wrong; expected RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    assert done.stderr == f"palmette: --engine: ray: {expected}\n"


def test_a_node_without_a_host_is_named(cluster: RayCluster, runs: Runs) -> None:
    words = arguments(runs, "none", 1)
    for file in (words[1], words[words.index("--profile") + 1], words[words.index("--cluster") + 1]):
        Path(file).write_text(Path(file).read_text().replace("server", "moon"))
    done = cluster.palmette(*words)
    assert (done.returncode, done.stdout) == (2, "")
    expected = "no host of the Ray cluster stands for it; run on its machine: palmette cluster join ADDRESS --node moon"
    assert done.stderr == f"palmette: --engine ray: moon: {expected}\n"


@pytest.mark.thorough  # hosts are asked as they are when devices pretrain
def test_a_pilot_trains_on_the_hosts(cluster: RayCluster, runs: Runs) -> None:
    files = ["--cluster", str(runs.cluster), "--profile", str(runs.profile(TINY))]
    asked = ["--fractions", "1,0.5", "--replicas", "2", "--epochs", "2", "--batch", "200", "--json"]
    asked += ["--engine", "ray", "--insecure"]
    done = cluster.palmette("pilot", TINY, *files, *asked, "-o", str(runs.folder / "pilot"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["fitted_on"] == {
        "epochs": [1, 2],
        "data": [0.5, 1],
        "replicas": [2, 2],
        "window": [1, 1],
        "batch": [200, 200],
    }
    record = json.loads((runs.folder / "pilot" / "runs" / "data-1-replicas-2" / "run.json").read_text())
    assert (record["engine"], record["ended"]) == ("ray", "done")


def test_the_training_file_of_the_testbed_runs_there_unchanged(cluster: RayCluster, runs: Runs) -> None:
    file = runs.folder / "training.yaml"
    file.write_text(TRAINING)
    for name, words in (("ray", ["--engine", "ray", "--insecure"]), ("local", [])):
        done = cluster.palmette("up", str(file), "-y", "--quiet", "-o", str(runs.folder / name), *words)
        assert done.returncode == 0, done.stderr
    record = json.loads((runs.folder / "ray" / "run" / "run.json").read_text())
    assert (record["ended"], record["engine"]) == ("done", "ray")
    ours, theirs = (weights(runs.folder / name / "run") for name in ("ray", "local"))
    assert relatively_off(ours, theirs) < 1e-5
