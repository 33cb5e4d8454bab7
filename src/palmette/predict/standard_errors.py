"""How sure the terms of a learning curve are, by how much whole runs differ from it.

The epochs of a run are no independent samples: a run that begins badly stays behind. So each run counts as one
observation, the means of its points; the standard errors are those of a linear regression on these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from palmette.predict.added_terms import log_product_beside, twins_without_codecs
from palmette.predict.loss_points import Floats, LossPoint, design_of, means_by_run
from palmette.spec.codec_term import Coding
from palmette.spec.learning import Learning

_STEP = 1e-4
"""By which the product of factors is changed to see how much the loss changes, in logarithms."""
_LEAST_CHANGE = 1e-3
"""Of the loss with the product of factors: near the loss before training, no loss tells how large a factor is."""


def standard_errors(
    curve: Learning, points: Sequence[LossPoint], columns: Floats, log_products: Sequence[float]
) -> Floats | None:
    """The errors of the powers of some columns, where the curve is at these products; None where runs are too few."""
    expected = np.array([math.log(curve.loss_from(each)) for each in log_products])
    raised = np.array([math.log(curve.loss_from(each + _STEP)) for each in log_products])
    rows = means_by_run(points, (raised - expected)[:, None] / _STEP * columns)
    deviations = means_by_run(points, np.log([[point.loss] for point in points]) - expected[:, None])
    spare = len(rows) - int(np.linalg.matrix_rank(rows))
    if spare < 1:
        return None
    variance = float(np.sum(deviations**2)) / spare
    errors = np.sqrt(variance * np.maximum(0.0, np.diag(np.linalg.pinv(rows.T @ rows))))
    return np.asarray(np.where(np.abs(rows).max(axis=0) > _LEAST_CHANGE, errors, np.inf))


def codec_errors(curve: Learning, points: Sequence[LossPoint]) -> dict[Coding, float]:
    """The standard error of each codec's factor, as a part of it, but for those that runs do not tell.

    By how much the runs of a codec differ beside their twins; by how much all runs differ where they have none.
    """
    design, twins = design_of(points), twins_without_codecs(points)
    powers = {term.coding: math.log(term.factor) for term in curve.codecs}

    def changed(point: LossPoint) -> float:
        return sum(powers[coding] for coding in point.codings)

    every = standard_errors(
        curve, points, design.columns, [curve.log_product(*each.bases) + changed(each) for each in points]
    )
    found = {} if every is None else dict(zip(design.codings, every[-len(powers) :].tolist(), strict=bool(powers)))
    for coding in powers:
        own = [point for point in points if coding in point.codings]
        if all(twins(point) is not None for point in own):
            beside = [log_product_beside(curve, each, twins) + changed(each) for each in own]
            alone = standard_errors(curve, own, np.ones((len(own), 1)), beside)
            found |= {} if alone is None else {coding: float(alone[0])}
    return {coding: error for coding, error in found.items() if math.isfinite(error)}
