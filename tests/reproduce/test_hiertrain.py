"""HierTrain's figures, small: the same machinery on LeNet-5 alone and at two bandwidths."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from palmette.cli import run
from palmette.reproduce import hiertrain as figures


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "EDGE_CLOUD_MBPS", (1.5, 5.0))
    monkeypatch.setattr(figures, "NETWORKS", {"AlexNet": "lenet5", "LeNet-5": "lenet5"})
    monkeypatch.setattr(figures, "TABLE_2", {"LeNet": "lenet5"})
    monkeypatch.setattr(figures, "AGAINST_WHOLE", figures.AGAINST_WHOLE[:3])
    monkeypatch.setattr(figures, "AGAINST_RIVALS", figures.AGAINST_RIVALS[:4])


@pytest.mark.usefixtures("small")
def test_figures_numbers_and_claims_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "hiertrain", "-o", str(tmp_path), "--batch", "16", "--quiet"]) == 0

    made = json.loads((tmp_path / "hiertrain.json").read_text())
    assert made["format"] == "palmette.reproduction/1"
    assert set(made["figures"]) == {"7", "8", "9", "10", "11"}
    for number, figure in made["figures"].items():
        assert figure["x"] == [1.5, 5.0]
        assert all(len(points) == 2 for points in figure["series"].values())
        ET.parse(tmp_path / f"figure-{number}.svg")
    for row in made["claims"]:
        assert row["agrees"] or row["why"]
    told = capsys.readouterr().out
    assert "Fig. 11" in told
    assert "The paper's claims" in told


def test_the_machines_are_the_papers() -> None:
    cluster = figures.machines(3.0, cores=2)
    assert {name: node.hardware for name, node in cluster.nodes.items()} == {
        "device": "raspberry-pi-3",
        "edge": "nuc-i3-7100u-2",
        "cloud": "xeon-gtx-1080-ti",
    }
    assert [link.bandwidth_bps for link in cluster.links] == [5e6, 3e6]
