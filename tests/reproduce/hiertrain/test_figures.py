"""HierTrain's figures, small: the same machinery on LeNet-5 alone and at two bandwidths."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from palmette.cli import execute
from palmette.reproduce.hiertrain import figures, measured, paper
from palmette.reproduce.hiertrain.claims import claims
from palmette.reproduce.hiertrain.figures import FigurePoint
from palmette.reproduce.hiertrain.sensitivity import scaled
from tests.durations import lasting

ALL_EDGE, ALL_CLOUD = (f"LeNet-5: HierTrain is up to … times faster than {each}" for each in ("all-edge", "all-cloud"))
FIT = {
    "closest": {"device": 0.02},
    "values": {"device": 0.03},
    "claims": [
        {"claim": ALL_EDGE, "closest": 1.6, "closest_residual": 0.01, "ours": 1.7, "residual": 0.0},
        {"claim": ALL_CLOUD, "closest": 4.3, "closest_residual": 0.4, "ours": 3.4, "residual": 0.7},
    ],
    "contradictions": [{"claims": [ALL_CLOUD, ALL_EDGE], "why": "the links are what they are"}],
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "EDGE_CLOUD_MBPS", (1.5, 5.0))
    monkeypatch.setattr(paper, "NETWORKS", {"AlexNet": "lenet5", "LeNet-5": "lenet5"})
    monkeypatch.setattr(paper, "TABLE_2", {"LeNet": "lenet5"})
    monkeypatch.setattr(figures, "WHOLE", figures.WHOLE[:3])
    monkeypatch.setattr(figures, "RIVALS", figures.RIVALS[:4])
    monkeypatch.setattr(figures, "fits", lambda *_: {"LeNet-5": FIT})


def reproduced(folder: Path, *more: str) -> dict[str, Any]:
    assert execute(["reproduce", "hiertrain", "-o", str(folder), "--batch", "16", "--quiet", *more]) == 0
    made: dict[str, Any] = json.loads((folder / "hiertrain.json").read_text())
    return made


@pytest.mark.usefixtures("small")
def test_figures_numbers_and_claims_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = reproduced(tmp_path)
    assert made["format"] == "palmette.reproduction/1"
    assert list(made["figures"]) == ["7", "8", "9", "10", "11"]
    for number, figure in made["figures"].items():
        assert figure["x"] == [1.5, 5.0]
        assert all(len(points) == 2 for points in figure["series"].values())
        assert {point["how"] for points in figure["series"].values() for point in points} == {"formula"}
        ET.parse(tmp_path / f"figure-{number}.svg")
    for row in made["claims"]:
        assert row["agrees"] or row["why"]
    assert made["causes"][0]["changed"] == "nothing"
    told = capsys.readouterr().out
    for text in ("Fig. 11", "The paper's claims", "Sensitivity", "closest to all claims: device 0.02"):
        assert text in told
    assert f"{ALL_EDGE}: paper 1.7" in told
    assert "reproduced with fitted machines (1.7)" in told
    assert f"cannot all be true\n  beside “{ALL_EDGE}”: the links are what they are" in told


@pytest.mark.usefixtures("small")
def test_the_claims_are_told_from_the_numbers() -> None:
    made = figures.reproduce_from(figures.CatalogueTimings(16))
    for point in made["figures"]["7"]["series"]["all-edge"]:
        point["iteration_s"] = 2.3 * made["figures"]["7"]["series"]["hiertrain"][1]["iteration_s"]
    told = {(row["figure"], row["claim"].rpartition(" ")[2]): row for row in claims(made)}
    assert told["7", "all-edge"]["agrees"]
    assert told["7", "all-edge"]["ours"] == pytest.approx(2.3)
    assert "raw data alone" in told["7", "all-cloud"]["why"]
    (overlaps,) = [row for row in claims(made) if row["claim"].startswith("LeNet-5: JointDNN+ is all-edge")]
    assert overlaps["ours"] == "no and no"


def test_real_iterations_are_compared_with_the_formula() -> None:
    def point(how: str, iteration_s: float) -> dict[str, Any]:
        return {"how": how, "iteration_s": iteration_s, "clock_s": 2.0, "formula_s": 2.0, "decision": {}}

    series = {"hiertrain": [point("measured", 2.1), point("simulated", 2.0), point("measured", 1.9)]}
    found = figures.real_and_formula({"x": [1.5, 2.0, 2.5], "series": series})
    assert found["x"] == [1.5, 2.5]
    assert [each["iteration_s"] for each in found["series"]["real"]] == [2.1, 1.9]
    assert [each["iteration_s"] for each in found["series"]["theoretical"]] == [2.0, 2.0]


def test_a_slower_machine_needs_longer_for_everything() -> None:
    made = figures.CatalogueTimings(16).profile("lenet5")
    assert scaled(made.nodes["edge"], 1.0) == made.nodes["edge"]
    slower = scaled(made.nodes["edge"], 10.0)
    assert slower.forward_s == pytest.approx([10 * each for each in made.nodes["edge"].forward_s])


@pytest.mark.usefixtures("small")
class TestMeasured:
    @pytest.mark.slow
    def test_layers_are_measured_and_each_machine_is_as_fast_as_the_catalogue_says(self) -> None:
        timings = measured.MeasuredTimings(4, progress=lambda _: None)
        made, predicted = timings.profile("lenet5"), paper.catalogue_profile("lenet5")
        for name, times in made.nodes.items():
            theirs = predicted.nodes[name]
            whole = sum(theirs.forward_s) + sum(theirs.backward_s)
            assert sum(times.forward_s) + sum(times.backward_s) == pytest.approx(whole)
            assert times.source == "measured"
        device, cloud = made.nodes["device"], made.nodes["cloud"]
        ratios = [a / b for a, b in zip(device.forward_s, cloud.forward_s, strict=True) if b]
        assert max(ratios) == pytest.approx(min(ratios))

    def test_few_points_are_chosen(self) -> None:
        assert len(measured.CHOSEN) == len(set(measured.CHOSEN)) == 14
        assert measured.MOST_DILATION <= 10

    @pytest.mark.slow
    @pytest.mark.timing
    @pytest.mark.timeout(300)
    def test_chosen_points_are_run_and_the_others_simulated(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen = (FigurePoint("LeNet-5", "all-edge", 5.0), FigurePoint("LeNet-5", "all-cloud", 5.0))
        monkeypatch.setattr(measured.MeasuredTimings.__init__, "__defaults__", (4, chosen, print))
        made = reproduced(tmp_path, "--measured")
        run_at = [
            (name, figure["x"][k], point)
            for figure in made["figures"].values()
            for name, points in figure["series"].items()
            for k, point in enumerate(points)
            if point["how"] == "measured"
        ]
        assert [(name, mbps) for name, mbps, _ in run_at] == [("all-edge", 5.0), ("all-cloud", 5.0)]
        for _, _, point in run_at:
            assert point["iteration_s"] == lasting(point["clock_s"], sooner=0.25)
            assert 1 <= point["dilation"] <= 10
        hows = {p["how"] for f in made["figures"].values() for points in f["series"].values() for p in points}
        assert hows == {"measured", "simulated"}
        assert "■ measured" in (tmp_path / "figure-8.svg").read_text()


def test_the_machines_are_the_papers() -> None:
    cluster = paper.machines(3.0, cores=2)
    assert {name: node.hardware for name, node in cluster.nodes.items()} == {
        "device": "raspberry-pi-3",
        "edge": "nuc-i3-7100u-2",
        "cloud": "xeon-gtx-1080-ti",
    }
    assert [link.bandwidth_bps for link in cluster.links] == [5e6, 3e6]
