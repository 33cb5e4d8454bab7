"""A power law through the losses of a setting: loss after k − 1 epochs = floor + scale · k^(−exponent).

Least squares with floor and scale of at least 0. For a given exponent that is a line in k^(−exponent), fitted by
non-negative least squares; the exponent is the one with the least residual. The quantiles are those of normal noise
about the curve, as large as the residual. Fewer than ``ENOUGH`` losses say nothing about noise: then each change is
uncertain by half of itself, fewer than three fix the exponent at ``DEFAULT_EXPONENT``, and a single one the floor at 0.

A power law knows nothing about smaller models. Its λ_change is a rule of thumb: a model that loses a fraction of its
parameters is expected to lose this fraction of what was learnt so far, and at worst all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from palmette.errors import Fault, InputError
from palmette.predict.forecast import QUANTILES, Forecast, History, Setting, floored
from palmette.predict.scalar_minimum import scalar_minimum
from palmette.spec.document import MOST

DEFAULT_EXPONENT = 0.5
ENOUGH = 5
LEAST_LOSS = 0.0
"""The floor of a fitted curve is not below it."""
_LOG_EXPONENTS = np.log(np.geomspace(0.02, 5.0, 40))
_WIDTH = NormalDist().inv_cdf(QUANTILES[1])

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class PowerLaw:
    """The curve floor + scale · k^(−exponent) for k = 1, 2, …, and the standard deviation of losses about it."""

    floor: float
    scale: float
    exponent: float
    deviation: float = 0.0

    def loss(self, k: float) -> float:
        """The curve at ``k``."""
        return float(self.floor + self.scale * k**-self.exponent)


def fit_power_law(losses: tuple[float, ...]) -> PowerLaw:
    """The power law that fits losses best, the first of them at k = 1.

    Raises:
        InputError: there is no loss, or one is below 0 or too large.
    """
    y = np.asarray(losses, dtype=float)
    if not y.size:
        raise InputError(Fault("losses", "none", "expected at least one"))
    if not ((y >= 0) & (y <= MOST)).all():
        wrong = next(each for each in losses if not 0 <= each <= MOST)
        raise InputError(Fault("losses", wrong, f"expected a number from 0 to {MOST:g}"))
    if y.size == 1:
        return PowerLaw(0.0, float(y[0]), DEFAULT_EXPONENT)
    exponent = DEFAULT_EXPONENT if y.size < 3 else _best_exponent(y)
    floor, scale, residual = _fit_line(y, exponent)
    deviation = residual / (y.size - 3) ** 0.5 if y.size >= ENOUGH else 0.0
    return PowerLaw(floor, scale, exponent, deviation)


def _best_exponent(y: Numbers) -> float:
    return math.exp(scalar_minimum(lambda logarithm: _fit_line(y, math.exp(logarithm))[2], _LOG_EXPONENTS))


def _fit_line(y: Numbers, exponent: float) -> tuple[float, float, float]:
    """Floor and scale, at least 0, and the norm of the residual."""
    design = np.column_stack([np.ones(y.size), np.arange(1, y.size + 1) ** -exponent])
    (floor, scale), residual = nnls(design, y)
    return float(floor), float(scale), float(residual)


@dataclass(frozen=True)
class PowerLawPredictor:
    """Predicts the loss by a power law through the losses of the setting."""

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        """The change of the loss in each of the next ``epochs``; the first leads from the loss seen to the curve."""
        curve, seen = fit_power_law(history.losses), len(history.losses)
        path = [history.loss, *(curve.loss(seen + ahead) for ahead in range(1, epochs + 1))]
        expected = [after - before for before, after in pairwise(path)]
        totals = [after - history.loss for after in path[1:]]
        if seen < ENOUGH:
            noise, jitter = [abs(change) / 2 for change in expected], [abs(total) / 2 for total in totals]
        else:
            # The first change begins with a loss that was seen, each other between two that jitter.
            jitter = [curve.deviation * _WIDTH] * epochs
            noise = [width * (1.0 if ahead == 0 else 2**0.5) for ahead, width in enumerate(jitter)]
        plain = Forecast(
            expected=tuple(expected),
            low=tuple(mean - width for mean, width in zip(expected, noise, strict=True)),
            robust=tuple(mean + width for mean, width in zip(expected, noise, strict=True)),
            total_robust=tuple(mean + width for mean, width in zip(totals, jitter, strict=True)),
        )
        return floored(plain, history.loss, LEAST_LOSS)

    def predict_change(self, history: History, to: Setting) -> Forecast:
        """A fraction of what was learnt so far is expected to be lost, at worst all of it."""
        learnt = max(0.0, max(history.earlier + history.losses) - history.loss)
        left = (1 - to.pruning) / (1 - history.setting.pruning)
        lost = min(1.0, max(0.0, 1 - left))
        return Forecast(expected=(lost * learnt,), low=(0.0,), robust=(learnt,), total_robust=(learnt,))
