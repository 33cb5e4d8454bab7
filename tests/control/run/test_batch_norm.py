"""Networks with batch norm in real runs: the plan that is chosen trains as well as one process does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import palmette as pt
from palmette.cli import execute
from palmette.runtime.options import Options
from palmette.zoo.capture import state
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off
from tests.runtime.world import Runs, alone, weights
from tests.thorough import mostly_thorough

NORMED = "tests.runtime.networks:normed"
PARTS = phase(
    source("phone", 3, "P"),
    source("phone", 6, "S1"),
    source("phone", 1, "S2"),
    instance("P", 1, 2, "phone", "R"),
    instance("S1", 1, 2, "server", "R"),
    instance("S2", 1, 2, "server", "R"),
    instance("R", 3, 4, "cloud"),
    batch_norm="whole",
)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    made = Runs(tmp_path)
    # One owner of all digits; every node as fast as the others, on links that make it worth while to share.
    made.cluster.write_text("""
nodes:
  phone: {tier: device, power: {idle: 2 W, busy: 5 W}, source: {samples: 1700}}
  server: {tier: edge, power: {idle: 7 W, busy: 22 W}}
  cloud: {tier: cloud, power: {idle: 90 W, busy: 300 W}}
links:
  - {between: [phone, server], bandwidth: 2000 Mbit/s}
  - {between: [server, cloud], bandwidth: 2000 Mbit/s}
""")
    return made


def test_a_run_that_shares_statistics_equals_one_process(runs: Runs) -> None:
    out = runs.folder / "out"
    options = ["--iterations", "6", "--optimizer", "momentum", "--lr", "0.05", "--dtype", "float64", "-o", str(out)]
    assert execute([*runs.arguments(NORMED, PARTS), *options, "--quiet"]) == 0
    _, expected = alone(NORMED, 10, 6, Options(optimizer="momentum", lr=0.05, dtype="float64"))
    assert off(weights(out), expected) <= 1e-9


def test_a_profile_that_knows_of_no_batch_norm_is_refused(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = runs.arguments(NORMED, PARTS)
    file = Path(arguments[arguments.index("--profile") + 1])
    known = json.loads(file.read_text())
    known["layers"][1]["batch_norm_channels"] = []
    file.write_text(json.dumps(known))
    assert execute([*arguments, "--iterations", "1", "-o", str(runs.folder / "out")]) == 2
    told = capsys.readouterr().err
    assert "layers[1].batch_norm_channels" in told
    assert len(told.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", mostly_thorough([8, 64], 1))
def test_what_auto_plans_trains_as_well_as_one_process(runs: Runs, batch: int) -> None:
    profile = pt.load_profile(runs.profile(NORMED, second=2e-4))
    plan = pt.plan("auto", profile=profile, cluster=pt.load_cluster(runs.cluster), batch=batch)
    assert len({each.node for each in plan.phases[0].instances}) > 1, "or it says nothing about parts"
    file = runs.folder / "auto.json"
    file.write_text(plan.to_json())
    iterations = min(60, 2 * 1500 // batch)
    behind = []
    for seed in range(3):
        out = runs.folder / f"out{seed}"
        asked = ["--iterations", str(iterations), "--optimizer", "momentum", "--lr", "0.02", "--seed", str(seed)]
        assert execute(["run", str(file), *asked, "--trust-code", "--testbed", "none", "--quiet", "-o", str(out)]) == 0
        _, expected = alone(NORMED, batch, iterations, Options(optimizer="momentum", lr=0.02, seed=seed))
        behind.append(accuracy(expected) - json.loads((out / "run.json").read_text())["accuracy"])
    assert sum(behind) / 3 <= 0.02, behind


def accuracy(found: dict[str, torch.Tensor]) -> float:
    """On held-out digits, in plain PyTorch."""
    network = load_network(NORMED, seed=0)
    for name, value in state(network.layers).items():
        value.copy_(found[name])
    held_out = load_data("digits", network.input_shape).held_out
    inputs, labels = held_out.batch(range(len(held_out)))
    with torch.no_grad():
        outputs = nn.Sequential(*(layer.module for layer in network.layers)).eval()(inputs)
    return float((outputs.argmax(1) == labels).double().mean())
