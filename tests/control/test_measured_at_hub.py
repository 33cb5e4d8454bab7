"""Measurements where workers at a hub are: layers, links in both directions, power; then a plan and a run of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.measure import host_power
from palmette.measure.meters.replay import ReplayMeter
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.spec.files import load
from palmette.spec.learning import Learning
from tests.control.hub_workers import HubWorkers
from tests.runtime.world import TINY, Runs

POWER = "power: {idle: 1 W, busy: 2 W}"
NODES = f"""\
nodes:
  phone: {{tier: device, threads: 1, {POWER}, source: {{samples: 300}}}}
  cloud: {{tier: cloud, threads: 1, {POWER}}}
links:
  - {{between: [phone, cloud], bandwidth: 1 Mbit/s, energy: 5 nJ/bit}}
"""
BOTH = ("phone", "cloud")


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    runs.cluster.write_text(NODES)
    with HubWorkers(runs.folder) as made:
        yield made


def measured(runs: Runs, place: HubWorkers, *more: str, model: str = TINY) -> tuple[int, Path]:
    output = runs.folder / "measured.json"
    words = [model, "--cluster", str(runs.cluster), *place.options, *more]
    return execute(["profile", *words, "-o", str(output)]), output


@pytest.mark.slow
def test_layers_and_links_are_measured_there_and_a_plan_of_them_runs(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_power, "IDLE_S", 0.05)
    monkeypatch.setattr(host_power, "BUSY_S", 0.05)
    place.meters["phone"] = ReplayMeter([0.0, 1000.0], [4.0, 4.0], "plug.csv")
    place.start(BOTH)
    file = runs.folder / "measured.yaml"
    code, output = measured(runs, place, "--write-cluster", str(file))
    said = capsys.readouterr().err
    assert code == 0
    assert "phone: 4 W idle, 4 W busy, measured: replayed from plug.csv" in said
    assert "power not measured: node cloud: no meter; its owner may name one: palmette worker --meter" in said
    profile, cluster = pt.load_profile(output), pt.load_cluster(file)
    assert {name: times.source for name, times in profile.nodes.items()} == dict.fromkeys(BOTH, "measured")
    assert [link.between for link in cluster.links] == [("phone", "hub"), ("cloud", "hub")]
    assert all(min(link.rates_bps) > 1e6 and link.energy_j_per_bit == 5e-9 for link in cluster.links)
    assert (cluster.nodes["hub"].relay, cluster.nodes["phone"].power.idle_w) == (True, pytest.approx(4.0, rel=1e-3))
    plan = runs.folder / "planned.json"
    words = ["--profile", str(output), "--cluster", str(file), "-o", str(plan), "--batch", "12"]
    assert execute(["plan", "all-cloud", *words]) == 0
    words = [str(plan), *place.options, "--iterations", "2", "--quiet", "--trust-code", "-o", str(runs.folder / "out")]
    assert execute(["run", *words]) == 0


def test_a_network_that_is_not_allowed_is_not_measured(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str]
) -> None:
    place.start(BOTH, AllowedNames())
    code, _ = measured(runs, place)
    assert code != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f": {TINY} is not allowed here; its owner may: palmette worker --allow {TINY}")


@pytest.mark.slow
def test_devices_pretrain_where_they_are(runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str]) -> None:
    place.meters["phone"] = ReplayMeter([0.0, 1000.0], [4.0, 4.0], "plug.csv")
    place.start(BOTH)
    lengths = ["--warmup", "1", "--timed", "3", "--counted", "2", "--steps", "50", "--batch", "8"]
    words = [TINY, "--cluster", str(runs.cluster), *place.options, *lengths, "--json"]
    assert execute(["pretrain", *words, "-o", str(runs.folder / "m.json")]) == 0
    devices = json.loads(capsys.readouterr().out)["devices"]
    assert {name: device["origin"]["steps"] for name, device in devices.items()} == dict.fromkeys(
        BOTH, "measured on its host"
    )
    assert devices["phone"]["bandwidth_bps"]["cloud"] > 1e6
    assert devices["phone"]["origin"]["power"] == "measured: replayed from plug.csv"
    assert devices["phone"]["power_w"] == pytest.approx(4.0)
    assert devices["cloud"]["origin"]["power"].startswith("modelled")


@pytest.mark.slow
def test_a_pilot_trains_where_workers_are(runs: Runs, place: HubWorkers) -> None:
    place.start(BOTH)
    words = [TINY, "--cluster", str(runs.cluster), *place.options, "--epochs", "2", "--fractions", "1,0.5"]
    folder = runs.folder / "pilot"
    assert execute(["pilot", *words, "--replicas", "1", "--quiet", "-o", str(folder)]) == 0
    assert load(Learning, folder / "learning.json").epoch_exponent > 0
