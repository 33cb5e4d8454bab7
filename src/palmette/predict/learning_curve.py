"""A learning curve through the losses of real runs.

    loss = floor + scale · φ^(−data_exponent) · g^(replica_exponent) · h^(window_exponent) · k^(−epoch_exponent)

Each run gives points (k, φ, g, h, loss), one per epoch. For a given floor, log(loss − floor) is linear in the logs of
k, φ, g and h: least squares with exponents of k, φ and h of at least 0. The floor is the one with the least squared
error of the loss itself. An exponent that no run varies the base of cannot be fitted: it is 0, and ``fitted_on`` says
so; that of h is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import lsq_linear
from sklearn.model_selection import LeaveOneGroupOut

from palmette.errors import Fault, InputError
from palmette.predict.scalar_minimum import scalar_minimum
from palmette.spec.learning import FACTORS, FittedValue, Learning

_HALVINGS = np.linspace(0.0, 9.975, 40)
"""Floors that are tried: the lowest loss minus 0.5^halvings of it."""
_MIN_POINTS = 3
_MAX_LOSS = 1e9
_SCALES = (1e-18, 1e18)
_MAX_EXPONENT = 1000.0
_SIGNS = (-1.0, -1.0, 1.0, 1.0)  # of the exponents of epochs, data, replicas and window
_LEAST = (-np.inf, 0.0, 0.0, -np.inf, 0.0)  # of the logarithm of the scale, and of the exponents
_WINDOW = 3
"""The number of the window among the bases."""


class LossPoint(NamedTuple):
    """The loss after so many epochs over a fraction of the data, in so many replicas that took so many steps apart."""

    epochs: float
    fraction: float
    replicas: int
    loss: float
    window: float = 1.0

    @property
    def bases(self) -> tuple[float, float, int, float]:
        """What the loss depends on, in the order of ``Learning.loss``."""
        return self.epochs, self.fraction, self.replicas, self.window


def fit_learning_curve(points: Sequence[LossPoint]) -> Learning:
    """The curve with the least squared error of the loss.

    Raises:
        InputError: there are too few points, or a loss is not above 0 or too large.
    """
    if len(points) < _MIN_POINTS:
        raise InputError(Fault("runs", f"{len(points)} points", f"expected at least {_MIN_POINTS} epochs with a loss"))
    lowest, highest = min(point.loss for point in points), max(point.loss for point in points)
    if lowest <= 0:
        raise InputError(Fault("runs", lowest, "expected losses above 0"))
    if highest > _MAX_LOSS:
        raise InputError(Fault("runs", highest, f"expected losses of at most {_MAX_LOSS:g}"))

    def curve(halvings: float) -> Learning:
        return _fit_with_floor(points, lowest * (1 - 0.5**halvings))

    best = curve(scalar_minimum(lambda halvings: rms_error(curve(halvings), points), _HALVINGS))
    return best.model_copy(update={"fitted_on": _ranges(points)})


def _ranges(points: Sequence[LossPoint]) -> dict[FittedValue, tuple[float, float]]:
    """The least and the largest value of each factor."""
    names: tuple[FittedValue, ...] = (*FACTORS, "window")
    columns = zip(*(point.bases for point in points), strict=True)
    return {name: (float(min(each)), float(max(each))) for name, each in zip(names, columns, strict=True)}


def rms_error(curve: Learning, points: Sequence[LossPoint]) -> float:
    """The root of the mean squared error of the loss."""
    return math.sqrt(sum(_squares(curve, points)) / len(points))


def cross_validation_error(runs: Sequence[Sequence[LossPoint]]) -> float | None:
    """The RMS error over all runs, each predicted by a curve fitted to the others; None if those are too few."""
    if sum(map(len, runs)) - max(map(len, runs)) < _MIN_POINTS:
        return None
    points = [point for run in runs for point in run]
    groups = [number for number, run in enumerate(runs) for _ in run]
    squares: list[float] = []
    for train, test in LeaveOneGroupOut().split(points, groups=groups):
        curve = fit_learning_curve([points[k] for k in train])
        squares += _squares(curve, [points[k] for k in test])
    return math.sqrt(sum(squares) / len(squares))


def _squares(curve: Learning, points: Sequence[LossPoint]) -> list[float]:
    return [(curve.loss(*point.bases) - point.loss) ** 2 for point in points]


def _fit_with_floor(points: Sequence[LossPoint], floor: float) -> Learning:
    """The best curve with a given floor, by bounded least squares on logarithms."""
    bases = np.array([point.bases for point in points], dtype=np.float64).T
    losses = np.array([point.loss for point in points])
    logarithms = [sign * np.log(base) for sign, base in zip(_SIGNS, bases, strict=True)]
    varied = [k for k, column in enumerate(logarithms) if np.ptp(column) > 0]
    design = np.column_stack([np.ones(len(points)), *(logarithms[k] for k in varied)])
    least = [_LEAST[0], *(_LEAST[1 + k] for k in varied)]
    scale, *found = lsq_linear(design, np.log(losses - floor), (least, np.inf), method="bvls").x.tolist()
    exponents = [0.0] * len(bases)
    for k, exponent in zip(varied, found, strict=True):
        exponents[k] = max(-_MAX_EXPONENT, min(_MAX_EXPONENT, exponent))
    epochs, data, replicas, window = exponents
    return Learning(
        floor=floor,
        scale=math.exp(np.clip(scale, *np.log(_SCALES))),
        epoch_exponent=epochs,
        data_exponent=data,
        replica_exponent=replicas,
        window_exponent=window if _WINDOW in varied else None,
    )
