"""``palmette pilot`` as a user types it; and from a network to a plan that reaches its loss."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.world import World

CLUSTER = """\
nodes:
  phone: {tier: device, hardware: raspberry-pi-4, source: {samples: 900}}
  tablet: {tier: device, hardware: raspberry-pi-4, source: {samples: 600}}
  server: {tier: edge, host: local, power: {idle: 7 W, busy: 22 W}}
links:
  - {between: [phone, server], bandwidth: 5 Mbit/s}
  - {between: [tablet, server], bandwidth: 5 Mbit/s}
"""
COMMAND = [sys.executable, "-c", "from palmette.cli import main; main()"]
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--epochs", "1"), "--epochs: 1: expected at least 2, so that the number of epochs varies"),
        (("--fractions", "1,x"), "--fractions: 1,x: expected numbers separated by commas"),
        (("--replicas", ""), "--replicas: none: expected at least one"),
        (("--fractions", "1.5"), "--fractions: 1.5: expected more than 0 and at most 1"),
        (("--batch", "0"), "--batch: 0: expected at least 1"),
        (("--engine", "rai"), "--engine: rai: no such engine; expected one of local, ray, hub"),
    ],
)
def test_bad_options_are_a_line_each(world: World, asked: tuple[str, str], told: str) -> None:
    folder = world.folder / "pilot"
    (line,) = world.refused("pilot", "lenet5", *world.inputs, "-o", folder, *asked)
    assert line == told
    assert not folder.exists()


def test_sources_that_cannot_be_told_apart(world: World) -> None:
    (line,) = world.refused("pilot", "lenet5", *world.inputs, "-o", world.folder / "pilot", "--each-source")
    assert line.startswith("--each-source: 1: ")


def test_a_profile_of_another_network(world: World) -> None:
    (line,) = world.refused("pilot", "lenet5", *world.inputs, "-o", world.folder / "pilot", "--quiet")
    assert "expected a profile of this network" in line


@pytest.mark.slow
def test_from_a_network_to_a_plan_that_reaches_its_loss(world: World) -> None:
    cluster, folder, asked = world.write("c.yaml", CLUSTER), world.folder / "pilot", 0.6
    learnt = world.json("pilot", "lenet5", "--cluster", cluster, "--data", "digits", "-o", folder, "--epochs", "8")
    assert learnt == json.loads((folder / "learning.json").read_text())
    assert learnt["left_out_error"] < 0.4
    files = ("--cluster", cluster, "--profile", folder / "profile.json", "--learning", folder / "learning.json")
    plan = world.folder / "plan.json"
    assert world.palmette("plan", "righttrain", *files, "--loss", asked, "--alone", "-o", plan).code == 0
    run = world.folder / "run"
    world.json("run", plan, "--data", "digits", "--testbed", "none", "-o", run, "--quiet")
    losses = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (*_, reached) = (line["loss"] for line in losses if "accuracy" in line)
    assert asked / 1.5 < reached < 1.5 * asked


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_there_and_the_same_command_continues(world: World) -> None:
    cluster, folder = world.write("c.yaml", CLUSTER), world.folder / "pilot"
    options = ["--cluster", str(cluster), "-o", str(folder), "--fractions", "1,0.5", "--replicas", "1"]
    started = subprocess.Popen([*COMMAND, "pilot", "lenet5", *options], **PIPES, start_new_session=True)
    while not any(_epochs(each) for each in folder.glob("runs/*/metrics.jsonl")):
        assert started.poll() is None
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=100)
    assert started.returncode == 1
    assert err.splitlines()[-1].endswith(f"{folder} has what is done; the same command continues")
    (begun,) = folder.glob("runs/*/metrics.jsonl")
    kept = begun.read_text().splitlines()
    world.json("pilot", "lenet5", *options)
    assert begun.read_text().splitlines()[: len(kept)] == kept
    assert [_epochs(each) for each in folder.glob("runs/*/metrics.jsonl")] == [10, 10]


def _epochs(metrics: Path) -> int:
    return sum('"accuracy"' in line for line in metrics.read_text().splitlines())
