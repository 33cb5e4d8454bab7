"""The worth of each source's samples, from runs that mix the sources differently."""

from __future__ import annotations

import pytest

from palmette.predict.learning_curve import LossPoint
from palmette.predict.source_weights import SourceRun, fit_source_weights, weighted_points
from palmette.spec.learning import Learning

TRUE = Learning(
    floor=0.1, scale=1.5, epoch_exponent=0.6, data_exponent=0.7, replica_exponent=0.0, weights={"noisy": 0.25}
)
OWNED = {"clean": 1000, "noisy": 500}


def run(clean: int, noisy: int) -> SourceRun:
    used = {"clean": clean, "noisy": noisy}
    losses = [TRUE.loss(k, TRUE.fraction(used, OWNED), 1) for k in range(1, 12)]
    plain = (clean + noisy) / sum(OWNED.values())
    return SourceRun([LossPoint(k, plain, 1, loss) for k, loss in enumerate(losses, 1)], used, OWNED)


def test_the_worth_of_a_source_is_found_again() -> None:
    weights = fit_source_weights([run(1000, 500), run(1000, 0), run(200, 500), run(500, 100)])
    assert weights == {"noisy": pytest.approx(0.25, rel=0.05)}


def test_where_no_run_varies_the_mixture_every_sample_counts_1() -> None:
    assert fit_source_weights([run(1000, 500), run(500, 250), run(100, 50)]) == {}


def test_weights_count_in_the_fraction_of_the_data() -> None:
    (point, *_) = weighted_points(run(1000, 0), {"noisy": 0.5})
    assert point.fraction == pytest.approx(1000 / 1250)
    assert TRUE.fraction({"noisy": 500}, OWNED) == pytest.approx(125 / 1125)
    assert TRUE.weight("clean") == 1.0
