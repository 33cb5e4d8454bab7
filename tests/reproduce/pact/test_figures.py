"""PACT's Table I and Fig. 4, from what ships."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from palmette.cli import execute
from palmette.predict.learned import load_shipped_predictor
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.shipped_curves import load_shipped_curves
from palmette.reproduce.pact.predictions import claims, figure_4, predictions
from palmette.spec.curves import Curve


@pytest.fixture(scope="module")
def left_out() -> list[Curve]:
    predictor = load_shipped_predictor()
    return [curve for curve in load_shipped_curves().curves if curve.seed in predictor.origin["left_out_seeds"]]


def test_fig_4_has_a_point_for_each_epoch_and_each_start(left_out: list[Curve]) -> None:
    curve = next(curve for curve in left_out if len(curve.phases) == 3)
    figure = figure_4(PowerLawPredictor(), curve)
    true = [loss for phase in curve.phases for loss in (phase.start_loss, *phase.losses)]

    assert figure["series"]["true"] == true
    assert len(figure["x"]) == len(figure["series"]["expected"]) == len(figure["series"]["robust"]) == len(true)
    assert figure["series"]["expected"][0] == true[0]


def test_fig_4_foretells_from_what_was_seen_five_epochs_before(left_out: list[Curve]) -> None:
    curve = left_out[0]
    shown = figure_4(load_shipped_predictor(), curve)["series"]["expected"]
    later = curve.phases[0].model_copy(update={"losses": (*curve.phases[0].losses[:4], 9.0)})
    changed = figure_4(load_shipped_predictor(), curve.model_copy(update={"phases": (later,)}))["series"]["expected"]

    assert changed == shown[: len(changed)]


@pytest.mark.slow
def test_table_1_is_on_curves_that_were_not_taught_and_beats_a_power_law(tmp_path: Path) -> None:
    assert execute(["reproduce", "pact", "-o", str(tmp_path), "--quiet"]) == 0

    made = json.loads((tmp_path / "pact.json").read_text())["predictions"]
    table, seeds = made["table_1"], load_shipped_predictor().origin["left_out_seeds"]
    assert made["left_out_curves"] == sum(curve.seed in seeds for curve in load_shipped_curves().curves)
    for which in ("run", "change"):
        ours, law = table["learned"][which], table["power-law"][which]
        assert ours["mae"]["mean"] < 0.7 * law["mae"]["mean"]
        assert ours["mil"]["mean"] < law["mil"]["mean"]
        assert abs(ours["icp"]["mean"] - 0.9) < abs(law["icp"]["mean"] - 0.9)
    ET.fromstring((tmp_path / "figure-4.svg").read_text())


def test_each_figure_of_table_1_stands_beside_the_papers() -> None:
    curves = load_shipped_curves()
    seed = load_shipped_predictor().origin["left_out_seeds"][0]
    few = tuple(curve for curve in curves.curves if curve.seed == seed)[:4]
    predictor = load_shipped_predictor()
    predictor.origin["left_out_seeds"] = [seed]
    rows = claims(predictions(predictor, curves.model_copy(update={"curves": few})))

    assert [(row["claim"], row["paper"]) for row in rows] == [
        ("λ_change: MAE", 0.13),
        ("λ_change: MIL", 0.52),
        ("λ_change: ICP", 0.87),
        ("λ_run: MAE", 0.0173),
        ("λ_run: MIL", 0.078),
        ("λ_run: ICP", 0.90),
    ]
    assert all(row["agrees"] or row["why"] for row in rows)
