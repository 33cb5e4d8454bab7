"""The robust estimate is never more optimistic than a bound."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from palmette.errors import InputError
from palmette.predict.bounds import (
    BoundConstants,
    BoundedPredictor,
    ConvergenceBound,
    FedAvgBound,
    OutputShiftBound,
    fit_rate,
)
from palmette.predict.examples import ChangeExample
from palmette.predict.forecast import History, Setting
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.registry import load_predictor
from palmette.spec.curves import Curve, CurvePhase, Origin

NOW = History(setting=Setting(samples=10, classes=2), losses=(2.0, 1.2, 0.9, 0.75, 0.66, 0.6))
HALF = Setting(pruning=0.5, samples=10, classes=2)


def test_robust_changes_rise_to_the_bound_and_no_others_change() -> None:
    plain = PowerLawPredictor().predict_epochs(NOW, 4)
    held = BoundedPredictor(
        PowerLawPredictor(), run_bound=lambda _, epochs: [-1.0, 0.0, -1.0, 0.5][:epochs]
    ).predict_epochs(NOW, 4)

    assert held.robust == (plain.robust[0], max(plain.robust[1], 0.0), plain.robust[2], 0.5)
    assert (held.expected, held.low) == (plain.expected, plain.low)


@pytest.mark.parametrize("least", [[-0.01] * 6, [-0.2, 0.0, -1.0, 0.1, -0.001, -0.5], [0.0] * 6])
def test_no_step_of_a_plan_is_below_its_bound(least: list[float]) -> None:
    """Plans add up steps from any epoch on, so each has to keep its own bound."""
    for losses in (NOW.losses, (2.0, 1.9), (3.0, 1.0, 2.0, 0.5, 1.5, 0.2)):
        history = History(setting=NOW.setting, losses=losses)
        plain = PowerLawPredictor().predict_epochs(history, 6)
        held = BoundedPredictor(PowerLawPredictor(), run_bound=lambda _, epochs: least[:epochs]).predict_epochs(
            history, 6
        )
        assert all(step >= bound - 1e-12 for step, bound in zip(held.steps_robust, least, strict=True))
        assert all(a >= b - 1e-12 for a, b in zip(held.total_robust, plain.total_robust, strict=True))


def test_without_bounds_nothing_changes() -> None:
    held = BoundedPredictor(PowerLawPredictor())

    assert held.predict_epochs(NOW, 3) == PowerLawPredictor().predict_epochs(NOW, 3)
    assert held.predict_change(NOW, HALF) == PowerLawPredictor().predict_change(NOW, HALF)


def test_a_change_is_held_to_its_own_bound() -> None:
    held = BoundedPredictor(PowerLawPredictor(), change_bound=OutputShiftBound(10.0))

    assert held.predict_change(NOW, HALF).robust == (pytest.approx(10 * 2**0.5),)
    assert held.predict_epochs(NOW, 2) == PowerLawPredictor().predict_epochs(NOW, 2)


def test_fedavg_is_trusted_with_the_fall_of_its_own_bound() -> None:
    bound = FedAvgBound(smoothness=4.0, convexity=1.0, noise=3.0, distance=2.0, epoch_steps=10, local_steps=5)
    by_hand = [4 / (32 + steps - 1) * (2 * 3.0 / 1.0 + 1.0 * 32 / 2 * 2.0) for steps in (51, 61, 71)]

    assert bound(NOW, 2) == pytest.approx([by_hand[1] - by_hand[0], by_hand[2] - by_hand[1]])
    assert all(change < 0 for change in bound(NOW, 50))


def test_fedavgs_bound_is_above_what_its_recursion_leads_to() -> None:
    """The squared distance by Lemmas 1 to 3 of Li et al., step by step, and the loss of a smooth function from it."""
    smoothness, convexity, noise, distance = 4.0, 0.5, 3.0, 2.0
    bound = FedAvgBound(
        smoothness=smoothness, convexity=convexity, noise=noise, distance=distance, epoch_steps=1, local_steps=5
    )
    offset, left = max(8 * smoothness / convexity, 5), distance
    for step in range(1, 2000):
        assert smoothness / 2 * left <= bound.excess_loss(step) * (1 + 1e-12)
        rate = 2 / (convexity * (offset - 1 + step))
        left = (1 - rate * convexity) * left + rate**2 * noise
    assert smoothness / 2 * left > 0.2 * bound.excess_loss(2000)


def test_cross_entropy_moves_by_at_most_root_two_times_the_shift_of_the_outputs() -> None:
    torch.manual_seed(0)
    outputs, labels = torch.randn(500, 7) * 5, torch.randint(0, 7, (500,))
    shift = torch.randn(500, 7)
    entropy = torch.nn.functional.cross_entropy
    moved = entropy(outputs + shift, labels, reduction="none") - entropy(outputs, labels, reduction="none")

    bounds = [OutputShiftBound(float(each.norm()))(NOW, HALF) for each in shift]
    assert all(abs(float(rise)) <= bound + 1e-5 for rise, bound in zip(moved, bounds, strict=True))
    assert math.isclose(OutputShiftBound(1.0)(NOW, HALF), 2**0.5)


def test_the_rate_is_that_of_fedavgs_theorem_where_losses_follow_it() -> None:
    theory = FedAvgBound(smoothness=4.0, convexity=1.0, noise=3.0, distance=2.0, epoch_steps=10, local_steps=5)
    excess = [theory.excess_loss(1 + 10 * epoch) for epoch in range(30)]

    rate = fit_rate(excess[:20])
    assert rate is not None
    assert rate.offset == pytest.approx(32 / 10, rel=0.06)
    told = ConvergenceBound(rate)(History(setting=NOW.setting, losses=tuple(excess[:20])), 10)
    assert told == pytest.approx([after - before for before, after in pairwise(excess[19:])], rel=0.1)


@pytest.mark.parametrize("losses", [(2.3, 1.9, 1.7, 1.4), (2.0, 2.2, 1.0, 0.9), (1.0, 0.2, 0.19)])
def test_losses_keep_the_rate_that_is_fitted_to_them(losses: tuple[float, ...]) -> None:
    rate = fit_rate(losses)
    assert rate is not None
    assert all(loss <= losses[0] * rate.scale / (rate.offset + k) + 1e-9 for k, loss in enumerate(losses))
    falls = [losses[0] * change for change in rate.least_changes(0, len(losses) - 1)]
    assert all(after - before >= fall - 1e-9 for (before, after), fall in zip(pairwise(losses), falls, strict=True))


def test_where_nothing_is_known_nothing_is_bounded() -> None:
    untrained = History(setting=NOW.setting, losses=(2.3,))
    assert ConvergenceBound(None)(untrained, 2) == [-math.inf] * 2
    plain = PowerLawPredictor().predict_epochs(untrained, 2)
    assert BoundedPredictor(PowerLawPredictor(), *BoundConstants().bounds(0.0)).predict_epochs(untrained, 2) == plain


def test_a_change_loses_the_share_of_what_was_learnt_that_curves_lost() -> None:
    before = History(setting=NOW.setting, losses=(2.0, 1.2, 1.0))
    taught = [ChangeExample(before, HALF, 0.3), ChangeExample(before, HALF, 0.5)]
    constants = BoundConstants.of([], taught)
    assert constants.share == pytest.approx(0.8)
    _, bound = constants.bounds(0.0)
    assert bound is not None
    assert bound(before, HALF) == pytest.approx(0.4)
    assert bound(History(setting=NOW.setting, losses=(2.0,)), HALF) == 0.0


def test_learned_predictors_are_bounded_unless_told_otherwise() -> None:
    promise = History(setting=Setting(samples=2000, classes=10), losses=(2.3, 2.2, 0.9, 0.5))
    bounded, plain = (load_predictor("shipped", bounds=each).predict_change(promise, HALF) for each in (True, False))
    assert bounded.robust[0] >= plain.robust[0]
    assert isinstance(load_predictor("shipped"), BoundedPredictor)
    assert not isinstance(load_predictor("shipped", bounds=False), BoundedPredictor)


def test_the_curves_of_a_file_bound_any_predictor(tmp_path: Path) -> None:
    slow = CurvePhase(nodes="gold", samples=100, classes=10, pruning=0.0, start_loss=2.0, losses=(1.99, 1.98, 1.97))
    file = tmp_path / "curves.jsonl"
    origin = Origin(model="mine", data="digits", batch=8, optimizer="sgd", lr=0.1)
    file.write_text(origin.to_json() + Curve(seed=0, phases=(slow,)).to_json())
    fast = History(setting=Setting(samples=100, classes=10), losses=(2.0, 1.0, 0.7, 0.5, 0.4, 0.35))
    plain, bounded = (
        load_predictor("power-law", bounds_from=each).predict_epochs(fast, 3) for each in (None, str(file))
    )
    assert min(plain.steps_robust) < -0.01
    assert min(bounded.steps_robust) >= -0.011, "no epoch of the curves lowered the loss by more"
    assert bounded.expected == plain.expected


def test_curves_for_bounds_that_are_not_applied_are_refused() -> None:
    with pytest.raises(InputError, match=r"bounds_from: mine\.jsonl: without bounds it has no effect"):
        load_predictor("power-law", bounds=False, bounds_from="mine.jsonl")
