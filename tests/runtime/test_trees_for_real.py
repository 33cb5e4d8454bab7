"""``epoch`` and ``async`` from the command line: real processes, real sockets, and the emulated cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import palmette as pt
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from tests.cost.small import instance, phase, source
from tests.durations import lasting
from tests.runtime.world import ROOT, TINY, Runs, lines, losses, weights

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
COMMAND = [sys.executable, "-c", "import sys; from palmette.cli import main; main(sys.argv[1:])"]


def two_trees(sync: str) -> Phase:
    """One tree on the phone, one cut between server and cloud; they meet on the server."""
    return phase(
        source("phone", 64, "P"),
        source("server", 32, "S1"),
        instance("P", 1, 5, "phone"),
        instance("S1", 1, 2, "server", "S2"),
        instance("S2", 3, 5, "cloud"),
        sync=sync,
        server="server",
    )


def palmette(*arguments: object) -> subprocess.CompletedProcess[str]:
    given = [*COMMAND, *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)


def ran(runs: Runs, tree: Phase, name: str, *more: object) -> dict[str, Any]:
    """Run and return ``run.json``."""
    done = palmette(*runs.arguments(TINY, tree), "--quiet", "-o", runs.folder / name, *more)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((runs.folder / name / "run.json").read_text())
    return found


def test_federated_averaging_learns(tmp_path: Path) -> None:
    found = ran(Runs(tmp_path), two_trees("epoch"), "out", "--epochs", 3, "--optimizer", "adam", "--lr", 0.01)
    assert found["ended"] == "done"
    assert found["iterations"] == 3 * 21  # 15 of 17 parts of 1500 samples are the phone's, in batches of 64
    assert found["epoch_s"] > 0
    assert found["estimate_epoch_s"] > 0
    accuracies = [line["accuracy"] for line in lines(tmp_path / "out/metrics.jsonl") if "accuracy" in line]
    assert len(accuracies) == 3
    assert accuracies[-1] > 0.4


def test_a_parameter_server_learns(tmp_path: Path) -> None:
    # Who is how fast decides over the order of the steps: so the loss has to fall by more than batches differ.
    found = ran(Runs(tmp_path), two_trees("async"), "out", "--iterations", 60, "--optimizer", "adam", "--lr", 0.01)
    assert found["iterations"] == 60
    noted = [line for line in lines(tmp_path / "out/metrics.jsonl") if "accuracy" not in line]
    assert Counter(line["tree"] for line in noted).keys() == {"P", "S2"}
    found_losses = losses(tmp_path / "out")
    assert sum(found_losses[-10:]) < 0.7 * sum(found_losses[:10])


def test_federated_averaging_goes_on_after_ctrl_c_to_the_same_weights(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    ran(runs, two_trees("epoch"), "whole", "--epochs", 3)
    halves = tmp_path / "halves"
    given = [*COMMAND, *runs.arguments(TINY, two_trees("epoch")), "--quiet", "--epochs", "3", "-o", str(halves)]
    given[given.index("none")] = "paced"
    with subprocess.Popen(given, stderr=subprocess.PIPE, text=True, cwd=ROOT) as running:
        until = time.monotonic() + 60
        while time.monotonic() < until and not (halves / "checkpoints/000021").exists():
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode not in (0, 2, 3)
    assert "--resume" in said
    done = palmette("run", "--resume", halves, "--quiet")
    assert done.returncode == 0, done.stderr
    expected, found = weights(tmp_path / "whole"), weights(halves)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert losses(halves) == losses(tmp_path / "whole")


@pytest.mark.timing
@pytest.mark.parametrize(("sync", "length"), [("epoch", "--epochs=3"), ("async", "--iterations=60")])
def test_the_estimate_meets_what_is_measured(sync: str, length: str, tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    given = runs.arguments(TINY, two_trees(sync))
    runs.profile(
        TINY, second=1e-4
    )  # a step of a tenth of a second: what engine and workers say to each other is little
    given[given.index("none")] = "paced"
    assert palmette(*given, length, "--quiet", "-o", tmp_path / "out").returncode == 0
    found = json.loads((tmp_path / "out/run.json").read_text())
    assert found["iteration_s"] == lasting(found["estimate_s"], sooner=0.15)
    if sync == "epoch":
        assert found["epoch_s"] == lasting(found["estimate_epoch_s"], sooner=0.15)


@pytest.mark.timing
def test_a_window_is_not_bound_to_the_slowest_owner(tmp_path: Path) -> None:
    """Two private owners, one with a quarter of the other's processor."""
    device = {"tier": "device", "hardware": "raspberry-pi-4", "source": {"samples": 400, "private": True}}
    slow = {**device, "limits": {"cpu_share": 0.25}}
    nodes = {"slow": slow, "fast": device, "server": {"tier": "edge", "hardware": "nuc-i3-7100u-1"}}
    links = [{"between": [name, "server"], "bandwidth": "1 Gbit/s"} for name in ("slow", "fast")]
    known = fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": links}))
    profile, found = pt.profile("lenet5", cluster=known), {}
    for shares in ("owned", "speed"):
        made = pt.plan("diloco", profile=profile, cluster=known, batch=40, every=5, shares=shares)
        took = pt.run(
            made, tmp_path / shares, iterations=10, testbed="paced", dilation=20, progress=False, replan=False
        )
        assert took.iteration_s == lasting(made.estimate.iteration_s)
        found[shares] = took.iteration_s
    assert found["speed"] < 0.5 * found["owned"]
