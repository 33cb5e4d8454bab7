"""What windows and codecs cost beside runs with the same batches, and what does not disturb the rest of the curve."""

from __future__ import annotations

import random

import pytest

from palmette.predict.learning_curve import fit_learning_curve
from palmette.predict.loss_points import LossPoint
from palmette.predict.standard_errors import codec_errors
from palmette.spec.codec_term import CodecTerm, Coding
from palmette.spec.learning import Learning

INT8, LOWRANK, TOPK = Coding("gradients", "int8"), Coding("differences", "lowrank:2"), Coding("gradients", "topk:0.01")
START = 2.3
TRUE = Learning(
    floor=0.9,
    scale=0.45,
    epoch_exponent=0.6,
    data_exponent=0.6,
    replica_exponent=0.0,
    window_exponent=0.05,
    start=START,
    knee=8.0,
    codecs=(
        CodecTerm(of="gradients", codec="int8", factor=1.0),
        CodecTerm(of="gradients", codec="topk:0.01", factor=1.3),
        CodecTerm(of="differences", codec="lowrank:2", factor=3.0),
    ),
)
PLACES = [
    (1 / 6, 4, 1), (1 / 12, 4, 1), (1 / 6, 4, 2), (1 / 12, 4, 2), (1 / 6, 2, 1), (1 / 12, 2, 1), (1 / 6, 1, 1),
    (1 / 12, 1, 1),
]  # fmt: skip


def ends(off: dict[int, float], diverging: float | None = None) -> list[LossPoint]:
    """The ends of a pilot's runs; those of a place have one seed, which is ``off`` by a part of the loss."""
    added: list[tuple[int, tuple[Coding, ...]]] = [(1, (INT8,)), (1, (TOPK,)), (50, ()), (50, (LOWRANK,))]
    plain: list[tuple[int, int, tuple[Coding, ...]]] = [(place, 1, ()) for place in range(len(PLACES))]
    found = []
    for place, h, codings in plain + [(place, *each) for place in (2, 3) for each in added]:
        phi, k, g = PLACES[place]
        loss = TRUE.coded("", codings).loss(k, phi, g, h) * (1 + off.get(place, 0.0))
        if diverging is not None and LOWRANK in codings:
            loss = diverging
        found.append(LossPoint(k, phi, g, loss, h, codings, 100 + place))
    return found


def factors(curve: Learning) -> dict[Coding, float]:
    return {term.coding: term.factor for term in curve.codecs}


@pytest.mark.parametrize("start", [None, START])
def test_the_floor_is_below_the_losses_of_runs_with_codecs_and_windows_too(start: float | None) -> None:
    """A plan for a loss that a run had is not refused."""
    plain = [point for point in ends({}) if point.window == 1 and not point.codings]
    better = [plain[2]._replace(loss=0.6, codings=(INT8,)), plain[3]._replace(loss=0.7, window=50.0)]
    assert fit_learning_curve([*plain, *better], start).floor < 0.6


def test_an_unusual_seed_does_not_change_what_codecs_and_windows_cost() -> None:
    found = fit_learning_curve(ends({0: 0.02, 2: -0.02, 3: 0.01}), START)
    assert factors(found)[INT8] == pytest.approx(1.0, abs=1e-3)
    assert factors(found)[TOPK] == pytest.approx(1.3, rel=0.2)
    assert found.window_exponent == pytest.approx(0.05, abs=0.02)


def test_without_seeds_a_codec_is_held_against_the_curve() -> None:
    """Then an unusual run counts as what the codec costs."""
    known = ends({0: 0.02, 2: -0.02, 3: 0.01})
    unknown = fit_learning_curve([point._replace(seed=None) for point in known], START)
    assert abs(factors(unknown)[TOPK] - 1.3) > abs(factors(fit_learning_curve(known, START))[TOPK] - 1.3)


@pytest.mark.parametrize("loss", [2.2999, 2.3, 9.0, 1e8])
def test_a_codec_with_which_nothing_is_learnt_changes_its_own_term_alone(loss: float) -> None:
    usual, found = fit_learning_curve(ends({}), START), fit_learning_curve(ends({}, diverging=loss), START)
    assert factors(found)[LOWRANK] > factors(usual)[LOWRANK]
    without = {"codecs": (), "fitted_on": {}}
    assert found.model_copy(update=without) == usual.model_copy(update=without)
    for each in (INT8, TOPK):
        assert factors(found)[each] == pytest.approx(factors(usual)[each], rel=1e-4)


def test_the_error_of_a_codec_is_by_its_own_runs_beside_their_twins() -> None:
    points = ends({0: 0.02, 2: -0.02, 3: 0.01}, diverging=9.0)
    errors = codec_errors(fit_learning_curve(points, START), points)
    assert errors[INT8] < 0.01
    assert LOWRANK not in errors  # where nothing is learnt, no loss tells how large its factor is


def test_replicas_that_differ_by_chance_have_no_exponent() -> None:
    """Replicas that agree after every step learn what one does: a seed above, another below is what runs tell."""
    draw = random.Random(3)
    noisy = [ends({place: draw.gauss(0, 0.01) for place in range(8)}) for _ in range(10)]
    assert sum(fit_learning_curve(each, START).replica_exponent != 0.0 for each in noisy) <= 2


def test_replicas_that_matter_have_their_exponent() -> None:
    true = TRUE.model_copy(update={"replica_exponent": 0.3})
    points = [LossPoint(k, phi, g, true.loss(k, phi, g), seed=place) for place, (phi, k, g) in enumerate(PLACES)]
    assert fit_learning_curve(points, START).replica_exponent == pytest.approx(0.3, abs=0.02)


def test_runs_that_all_trained_apart_are_fitted_at_once() -> None:
    """No curve without windows is known from which their cost could be measured."""
    points = [
        LossPoint(k, phi, 2, TRUE.loss(k, phi, 2, h), h) for phi in (0.5, 0.25) for k in range(1, 9) for h in (8, 32)
    ]
    assert fit_learning_curve(points, START).window_exponent == pytest.approx(0.05, abs=0.01)
