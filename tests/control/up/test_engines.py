"""The same training file on the local testbed, and with workers that dial in: the same weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    hub = f"engine: hub\nrun: {{listen: '{place.listen}', keys: '{place.keys.folder}'}}\n"
    for name, more in (("hub", hub), ("local", "engine: local\n")):
        file = runs.folder / f"{name}.yaml"
        file.write_text(f"{TRAINING}output: {name}\n{more}")
        assert execute(["up", str(file), "-y", "--quiet"]) == 0
    record = json.loads((runs.folder / "hub" / "run" / "run.json").read_text())
    assert (record["ended"], record["transport"], record["iterations"]) == ("done", "tls", 3)
    ours, theirs = (weights(runs.folder / name / "run") for name in ("hub", "local"))
    assert relatively_off(ours, theirs) < 1e-5
