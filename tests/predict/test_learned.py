"""Learned predictors: they learn what can be learnt, come back from a file the same, and refuse other files."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from palmette.errors import InputError
from palmette.predict.examples import change_examples, run_examples
from palmette.predict.forecast import History, Setting
from palmette.predict.learned import LearnedPredictor, load, save, train_predictor
from palmette.predict.metrics import evaluate_changes, evaluate_runs
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.training import (
    CHANGE_TRAINING,
    RUN_TRAINING,
    pinball_loss,
    train_change_network,
    train_run_network,
)
from palmette.spec.curves import Curve, CurvePhase, Curves

NOW = History(setting=Setting(samples=100, classes=7), losses=(2.3, 2.0, 1.8))


def made_up(seeds: int) -> Curves:
    """Losses that fall by a tenth an epoch, and rise by the fraction that is removed, with a little noise."""
    draw = random.Random(0)
    curves = []
    for seed in range(seeds):
        loss = draw.uniform(1.5, 3.0)
        phases = []
        for nodes, pruning, samples in (("gold", 0.0, 1000), ("silver", draw.choice([0.3, 0.6]), 100)):
            loss += pruning
            losses = [start := loss]
            for _ in range(10):
                loss = losses[-1] * 0.9 + draw.gauss(0, 0.005)
                losses.append(loss)
            phases.append(
                CurvePhase(
                    nodes=nodes, samples=samples, classes=7, pruning=pruning, start_loss=start, losses=tuple(losses[1:])
                )
            )
        curves.append(Curve(seed=seed, phases=tuple(phases)))
    return Curves(model="m", data="d", batch=1, optimizer="o", lr=1.0, curves=tuple(curves))


@pytest.fixture(scope="module")
def trained() -> tuple[LearnedPredictor, list[Curve]]:
    return train_predictor(made_up(40))


def test_it_takes_one_thread_and_gives_the_others_back(trained: tuple[LearnedPredictor, list[Curve]]) -> None:
    seen, threads = [], torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        hook = trained[0].run_network.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
        trained[0].predict_epochs(NOW, 6)
        hook.remove()
        assert (seen, torch.get_num_threads()) == ([1, 1], 2)
    finally:
        torch.set_num_threads(threads)


def test_learns_a_law_that_no_power_law_follows(trained: tuple[LearnedPredictor, list[Curve]]) -> None:
    predictor, left_out = trained
    moments, switches = run_examples(left_out), change_examples(left_out)
    ours, law = evaluate_runs(predictor, moments), evaluate_runs(PowerLawPredictor(), moments)

    assert ours.mae < 0.02
    assert ours.mae < 0.7 * law.mae
    assert 0.75 < ours.icp <= 1.0
    assert ours.exceeded < 0.15
    assert evaluate_changes(predictor, switches).mae < 0.1


def test_says_what_it_was_trained_on_and_what_not(trained: tuple[LearnedPredictor, list[Curve]]) -> None:
    predictor, left_out = trained

    assert predictor.origin["left_out_seeds"] == list(range(30, 40))
    assert predictor.origin["curves"] == 30
    assert {curve.seed for curve in left_out} == set(range(30, 40))


@pytest.mark.parametrize("epochs", [0, 1, 5, 6, 23])
def test_foretells_any_number_of_epochs_with_quantiles_in_order(
    trained: tuple[LearnedPredictor, list[Curve]], epochs: int
) -> None:
    found = trained[0].predict_epochs(NOW, epochs)

    assert len(found.expected) == epochs
    assert all(low <= mean <= high for low, mean, high in zip(found.low, found.expected, found.robust, strict=True))
    assert all(total >= sum(found.expected[:n]) for n, total in enumerate(found.total_robust, 1))


def test_the_next_five_do_not_depend_on_how_many_are_predicted(trained: tuple[LearnedPredictor, list[Curve]]) -> None:
    predictor = trained[0]
    few, many = predictor.predict_epochs(NOW, 3), predictor.predict_epochs(NOW, 12)
    later = predictor.predict_epochs(NOW.extended(*(NOW.loss + sum(many.expected[:n]) for n in range(1, 6))), 5)

    assert few.expected == many.expected[:3]
    assert later.expected == pytest.approx(many.expected[5:10])


def test_the_expected_loss_never_falls_below_zero(trained: tuple[LearnedPredictor, list[Curve]]) -> None:
    found = trained[0].predict_epochs(replace(NOW, losses=(2.3, 1.0, 0.05)), 40)

    assert all(0.05 + sum(found.expected[:n]) >= -1e-9 for n in range(41))


def test_comes_back_from_a_file_the_same(trained: tuple[LearnedPredictor, list[Curve]], tmp_path: Path) -> None:
    predictor, to = trained[0], Setting(pruning=0.5, samples=10, classes=10)
    save(predictor, tmp_path / "predictor.safetensors")
    again = load(tmp_path / "predictor.safetensors")

    assert again.predict_epochs(NOW, 7) == predictor.predict_epochs(NOW, 7)
    assert again.predict_change(NOW, to) == predictor.predict_change(NOW, to)
    assert (again.origin, again.ranges, again.floor) == (predictor.origin, predictor.ranges, predictor.floor)
    assert again.constants == predictor.constants


def test_the_same_seed_teaches_the_same() -> None:
    examples, other = run_examples(made_up(2).curves), change_examples(made_up(2).curves)
    short, brief = replace(RUN_TRAINING, epochs=1), replace(CHANGE_TRAINING, epochs=1)
    for first, second in (
        (train_run_network(examples, short), train_run_network(examples, short)),
        (train_change_network(other, brief), train_change_network(other, brief)),
    ):
        states = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
        assert all(torch.equal(a, b) for a, b in states)


def test_the_pinball_loss_is_least_at_the_quantile() -> None:
    truth = torch.arange(1001) / 1000
    for quantile in (0.05, 0.5, 0.95):
        tried = torch.arange(101) / 100
        losses = torch.stack([pinball_loss(truth - each, quantile).mean() for each in tried])
        assert tried[losses.argmin()] == pytest.approx(quantile, abs=0.011)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for name, content in (("empty", b""), ("text", b"no predictor")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name}: the file: cannot be read"):
            load(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "missing")
    save_file({"a": torch.zeros(1)}, tmp_path / "weights")
    with pytest.raises(InputError, match=r"weights: format: missing: expected 'palmette.predictor/1'"):
        load(tmp_path / "weights")
    save_file({"a": torch.zeros(1)}, tmp_path / "other", metadata={"format": "palmette.predictor/1", "origin": "{}"})
    with pytest.raises(InputError, match="other: the file: holds no such predictor"):
        load(tmp_path / "other")


def test_too_few_curves_teach_nothing() -> None:
    with pytest.raises(InputError, match="curves: 1 seeds: expected at least two"):
        train_predictor(made_up(1))
    flat = made_up(2)
    single = tuple(curve.model_copy(update={"phases": curve.phases[:1]}) for curve in flat.curves)
    with pytest.raises(InputError, match="expected curves with two phases or more"):
        train_predictor(flat.model_copy(update={"curves": single}))
