"""PACT's Fig. 2: federated averaging by hand, and the whole figure on a few epochs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

from palmette.cli.reproduce.pact import draw
from palmette.errors import InputError
from palmette.measure.curves.trainer import CurveRecipe
from palmette.reproduce.pact.accuracy import figure_2, observations
from palmette.reproduce.pact.federated import QUICK, FederatedCurve, Federation
from palmette.reproduce.pact.kept_trainings import KeptTrainings
from palmette.reproduce.progress import silent

RECIPE = CurveRecipe(model="lenet5", data="digits", batch=8, lr=0.02)


@pytest.mark.slow
def test_an_epoch_ends_with_the_mean_of_all_nodes_weighted_by_their_samples() -> None:
    nodes, alone = Federation(RECIPE), Federation(RECIPE)
    so_far = FederatedCurve()
    next(nodes.train(so_far, 1))
    for part, trainer in zip(alone.parts["gold"], alone.trainers, strict=True):
        trainer.train(part, 1, 0)
    for name, mean in nodes.trainers[3].module.state_dict().items():
        every = [trainer.module.state_dict()[name] for trainer in alone.trainers]
        torch.testing.assert_close(mean, torch.stack(every).mean(0))
    assert len(so_far.accuracy) == len(so_far.time_s) == 1
    assert so_far.cpu_s >= so_far.time_s[0] > 0


def test_no_sample_belongs_to_two_nodes_and_sizes_are_the_papers() -> None:
    parts = Federation(RECIPE).parts
    sizes = {kind: [len(part.labels) for part in own] for kind, own in parts.items()}
    assert [len(own) for own in sizes.values()] == [5, 2, 2]
    assert sizes["gold"][0] / sizes["silver"][0] == pytest.approx(8000 / 2500, rel=0.05)
    every = torch.cat([part.inputs.flatten(1) for own in parts.values() for part in own])
    assert len(every.unique(dim=0)) > 0.99 * len(every)


def test_the_observations_are_told_as_they_come_out() -> None:
    def training(level: float, cpu_s: float) -> FederatedCurve:
        return FederatedCurve([level] * QUICK.epochs, [float(k) for k in range(QUICK.epochs)], cpu_s)

    levels = {(1, "silver"): 0.5, (4, "silver"): 0.6, (1, "bronze"): 0.2, (4, "bronze"): 0.5}
    found = {(k1, f, kind): training(level, 2 - f) for (k1, kind), level in levels.items() for f in QUICK.pruned}
    assert [row["agrees"] for row in observations(QUICK, found)] == [True, True, True]
    found |= {key: training(0.5, 1 + key[1]) for key in found}
    rows = observations(QUICK, found)
    assert [row["agrees"] for row in rows] == [False, False, False]
    assert all(row["why"] for row in rows)


@pytest.mark.slow
def test_fig_2_is_trained_for_real_and_resumes(tmp_path: Path) -> None:
    figure, claims = figure_2("digits", silent, tmp_path, quick=True)
    assert len(figure["trainings"]) == 8
    for each in figure["trainings"].values():
        assert len(each["accuracy"]) == len(each["time_s"]) == QUICK.epochs
        assert max(each["accuracy"]) > 0.3
    assert len(claims) == 3
    ET.fromstring(draw("2", figure))

    done = list[str]()
    again, _ = figure_2("digits", done.append, tmp_path, quick=True)
    assert (again, done) == (figure, []), "what was kept is not trained again"

    lost = next(tmp_path.glob("*/4-0.9-bronze.json"))
    lost.unlink()
    resumed, _ = figure_2("digits", done.append, tmp_path, quick=True)
    assert len(done) == QUICK.epochs - 4, "only the one that was lost, from where it was pruned"
    name = "K₁ 4, F 0.9, bronze"
    assert resumed["trainings"][name]["accuracy"] == figure["trainings"][name]["accuracy"]


def test_a_kept_training_that_is_broken_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "1-0.5-silver.json").write_text('{"accuracy": [0.5], "time_s": []}')
    with pytest.raises(InputError, match=r"1-0\.5-silver\.json.*remove it"):
        KeptTrainings(RECIPE, QUICK, silent, folder).all()
