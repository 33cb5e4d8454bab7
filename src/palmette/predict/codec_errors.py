"""How sure the factor of a codec is, by how much whole runs differ from the curve.

The epochs of a run are no independent samples: a run that begins badly stays behind. So each run counts as one
observation, its mean deviation from the curve in logarithms; the standard errors are those of a linear regression on
the runs' means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palmette.predict.learning_curve import Design, Floats, LossPoint, design_of
from palmette.spec.codec_term import Coding
from palmette.spec.learning import Learning


def codec_errors(curve: Learning, runs: Sequence[Sequence[LossPoint]]) -> dict[Coding, float]:
    """The standard error of each codec's factor, as a part of it; empty where there are not more runs than terms."""
    points = [point for run in runs for point in run]
    design = design_of(points)
    if not design.codings:
        return {}
    rows, deviations = _by_run(design, [_deviation(curve, point) for point in points], [len(run) for run in runs])
    spare = len(rows) - int(np.linalg.matrix_rank(rows))
    if spare < 1:
        return {}
    variance = float(deviations @ deviations) / spare
    spread = np.sqrt(variance * np.diag(np.linalg.pinv(rows.T @ rows)))
    return dict(zip(design.codings, spread[-len(design.codings) :].tolist(), strict=True))


def _deviation(curve: Learning, point: LossPoint) -> float:
    """How far a loss is from the curve, in logarithms of what is above the floor."""
    expected = curve.coded("", point.codings).loss(*point.bases)
    return float(np.log(point.loss - curve.floor) - np.log(expected - curve.floor))


def _by_run(design: Design, deviations: Sequence[float], lengths: Sequence[int]) -> tuple[Floats, Floats]:
    """The means of each run: of what its points have, and of how far they are from the curve."""
    ends = np.cumsum(lengths)[:-1]
    rows = [part.mean(axis=0) for part in np.split(design.columns, ends)]
    return np.array(rows), np.array([part.mean() for part in np.split(np.array(deviations), ends)])
