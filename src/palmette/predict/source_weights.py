"""What a sample of each source is worth for learning, from runs that mix the sources differently.

The weights of φ = Σ w(d)·x(d) / Σ w(d)·Δ(d) with which a learning curve fits the losses best. Only ratios matter, and
only sources whose part of the data differs between runs can be told apart: the others count 1, and where there are no
others, the source that owns most does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from palmette.predict.joint_fit import rms_error
from palmette.predict.learning_curve import fit_learning_curve
from palmette.predict.loss_points import LossPoint

Floats = np.ndarray[Any, np.dtype[np.float64]]
_LARGEST = 20.0
"""Weights are at most this, and at least its inverse."""
_BETTER = 0.95
"""Weights have to lower the error of the fit to this part of it; otherwise they are noise."""
_ATTEMPTS = 60
"""Curves that are fitted per weight."""
_SAME = 1e-3
"""Parts of the data that differ by less are the same."""


class SourceRun(NamedTuple):
    """The points of a run, the samples of an epoch that it took from each source, and those that each source owns."""

    points: list[LossPoint]
    used: Mapping[str, float]
    owned: Mapping[str, float]


def weighted_points(run: SourceRun, weights: Mapping[str, float]) -> list[LossPoint]:
    """The points of a run with the fraction of the data as weights count it."""
    used, owned = (sum(weights.get(name, 1.0) * many for name, many in each.items()) for each in run[1:])
    return [point._replace(fraction=used / owned) for point in run.points]


def fit_source_weights(runs: Sequence[SourceRun]) -> dict[str, float]:
    """The weights with the least error of the loss; none where no run varies the mixture, or they hardly matter.

    Raises:
        InputError: no curve can be fitted.
    """
    names = _told_apart(runs)
    if not names:
        return {}

    def error(logarithms: Floats) -> float:
        weights = dict(zip(names, np.exp(logarithms).tolist(), strict=True))
        points = [point for run in runs for point in weighted_points(run, weights)]
        return rms_error(fit_learning_curve(points), points)

    bounds = [(-math.log(_LARGEST), math.log(_LARGEST))] * len(names)
    start = np.zeros(len(names))
    simplex = np.vstack([start, -np.eye(len(names))])
    options = {"maxfev": _ATTEMPTS * len(names), "xatol": 1e-3, "fatol": 1e-9, "initial_simplex": simplex}
    found = minimize(error, start, method="Nelder-Mead", bounds=bounds, options=options)
    if not found.fun <= _BETTER * error(start):
        return {}
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))


def _told_apart(runs: Sequence[SourceRun]) -> list[str]:
    """The sources whose part of the data differs between runs, without one that the others are compared with."""
    names = list(dict.fromkeys(name for run in runs for name in run.owned))
    parts = {name: [run.used.get(name, 0.0) / sum(run.used.values()) for run in runs] for name in names}
    varied = [name for name in names if max(parts[name]) - min(parts[name]) > _SAME]
    if len(varied) < len(names):
        return varied
    most = max(varied, key=lambda name: max(run.owned.get(name, 0.0) for run in runs))
    return [name for name in varied if name != most]
