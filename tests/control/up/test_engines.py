"""The same training file, unchanged, on the local testbed and with workers that dial in: the same weights.

On a Ray cluster: ``tests/control/run/test_ray.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.runtime.engines.hub.allowed import AllowedNames
from tests.control.hub_workers import HubWorkers
from tests.runtime.rig import relatively_off
from tests.runtime.world import Runs, weights

TRAINING = """\
cluster:
  nodes:
    phone: {tier: device, hardware: raspberry-pi-4, threads: 1, source: {samples: 600, data: digits}}
    server: {tier: edge, hardware: nuc-i3-7100u-4, threads: 1}
  links: [{between: [phone, server], bandwidth: 20 Mbit/s}]
model: lenet5
data: digits
batch: 32
strategy: all-edge
iterations: 3
"""


@pytest.fixture
def place(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubWorkers]:
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    with HubWorkers(runs.folder) as made:
        yield made


@pytest.mark.slow
def test_a_hub_comes_to_the_same_weights_as_the_testbed(runs: Runs, place: HubWorkers) -> None:
    place.start(("phone", "server"), allowed=AllowedNames())
    file = runs.folder / "training.yaml"
    file.write_text(TRAINING)
    hub = ["--engine", "hub", "--listen", place.listen, "--keys", str(place.keys.folder)]
    for name, words in (("hub", hub), ("local", [])):
        assert execute(["up", str(file), "-y", "--quiet", "-o", str(runs.folder / name), *words]) == 0
    record = json.loads((runs.folder / "hub" / "run" / "run.json").read_text())
    assert (record["ended"], record["transport"], record["iterations"]) == ("done", "tls", 3)
    ours, theirs = (weights(runs.folder / name / "run") for name in ("hub", "local"))
    assert relatively_off(ours, theirs) < 1e-5


@pytest.mark.slow
def test_links_that_are_guessed_are_measured_where_machines_are_real(
    runs: Runs, place: HubWorkers, capsys: pytest.CaptureFixture[str]
) -> None:
    place.start(("phone", "server"), allowed=AllowedNames())
    file = runs.folder / "training.yaml"
    file.write_text(TRAINING.replace("20 Mbit/s}", "1 Mbit/s, guessed: true}"))
    assert execute(["up", str(file), "-y", "-o", str(runs.folder / "local")]) == 0
    assert "training.yaml: guessed, not measured: phone–server" in capsys.readouterr().err
    hub = ["--engine", "hub", "--listen", place.listen, "--keys", str(place.keys.folder)]
    assert execute(["up", str(file), "-y", "-o", str(runs.folder / "hub"), *hub]) == 0
    assert "cluster.yaml: links measured" in capsys.readouterr().err
    measured = pt.load_cluster(runs.folder / "hub" / "cluster.yaml")
    assert not any(link.guessed for link in measured.links)
    plan = pt.load_plan(runs.folder / "hub" / "plan.json")
    assert plan.inputs is not None
    assert {frozenset(link.between) for link in plan.inputs.cluster.links} == {
        frozenset({"phone", "hub"}),
        frozenset({"server", "hub"}),
    }


@pytest.mark.slow
def test_init_asks_the_workers_that_dial_in_and_up_trains_there(runs: Runs, place: HubWorkers) -> None:
    place.start(allowed=AllowedNames())
    file = runs.folder / "fresh" / "cluster.yaml"
    file.parent.mkdir()
    hub = ["--engine", "hub", "--listen", place.listen, "--keys", str(place.keys.folder)]
    more = ["--samples", "300", "--epochs", "1", "--wait", "30", "--yes"]
    assert execute(["init", str(file), *hub, *more]) == 0
    cluster = pt.load_cluster(file)
    tiers = {name: node.tier for name, node in cluster.nodes.items() if not node.relay}
    assert tiers == {"phone": "device", "server": "edge", "cloud": "cloud"}
    assert all("hub" in link.between and not link.guessed for link in cluster.links)
    assert execute(["up", str(file.with_name("training.yaml")), "-y", "--quiet"]) == 0
    record = json.loads((file.parent / "training" / "run" / "run.json").read_text())
    assert (record["ended"], record["engine"]) == ("done", "hub")
