"""A plain power law through the losses of a setting: loss after k − 1 epochs = floor + scale · k^(−exponent).

Least squares with floor and scale at least 0. For a given exponent that is a line in k^(−exponent), solved in closed
form; the exponent is found by scanning, finer and finer. The quantiles are those of normal noise about the
curve, as large as the curve's misfit. Fewer than ``ENOUGH`` losses say nothing about noise: then each change is
uncertain by half of itself, fewer than three fix the exponent at ``USUAL_EXPONENT``, and a single one the floor at 0.

A power law knows nothing about smaller models. Its λ_change is a rule of thumb: a model that loses a fraction of its
parameters is expected to lose this fraction of what was learnt so far, and at worst all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from palmette.errors import Fault, InputError
from palmette.predict.forecast import QUANTILES, Forecast, Past, Setting
from palmette.spec.document import MOST

USUAL_EXPONENT = 0.5
ENOUGH = 5
LEAST_EXPONENT, MOST_EXPONENT = 0.02, 5.0
_POINTS, _SCANS = 40, 5
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


def fit(losses: tuple[float, ...]) -> PowerLaw:
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
        return PowerLaw(0.0, float(y[0]), USUAL_EXPONENT)
    exponent = USUAL_EXPONENT if y.size < 3 else _best_exponent(y)
    floor, scale, misfit = (float(each[0]) for each in _lines(y, np.array([exponent])))
    deviation = (misfit / (y.size - 3)) ** 0.5 if y.size >= ENOUGH else 0.0
    return PowerLaw(floor, scale, exponent, deviation)


def _best_exponent(y: Numbers) -> float:
    """Scan the exponents, then again between the neighbours of the best, finer and finer."""
    tried = np.geomspace(LEAST_EXPONENT, MOST_EXPONENT, _POINTS)
    for _ in range(_SCANS):
        at = int(np.argmin(_lines(y, tried)[2]))
        best = tried[at]
        tried = np.geomspace(tried[max(at - 1, 0)], tried[min(at + 1, _POINTS - 1)], _POINTS)
    return float(best)


def _lines(y: Numbers, exponents: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Floor and scale, at least 0, and the sum of squares that they leave, for each exponent."""
    z = np.arange(1, y.size + 1) ** -exponents[:, None]
    spread = z - z.mean(axis=1, keepdims=True)
    steepness = (spread**2).sum(axis=1)
    slope = np.divide(spread @ y, steepness, out=np.zeros_like(steepness), where=steepness > 0)
    # The line, and where that would go below 0, the best on either edge.
    free = np.stack([y.mean() - slope * z.mean(axis=1), slope])
    no_floor = np.stack([np.zeros_like(slope), z @ y / (z**2).sum(axis=1)])
    no_scale = np.stack([np.full_like(slope, y.mean()), np.zeros_like(slope)])
    tried = np.stack([free, no_floor, no_scale])
    left = ((y - tried[:, 0, :, None] - tried[:, 1, :, None] * z) ** 2).sum(axis=2)
    left[0, (free < 0).any(axis=0)] = np.inf
    best, each = left.argmin(axis=0), np.arange(exponents.size)
    return tried[best, 0, each], tried[best, 1, each], left[best, each]


@dataclass(frozen=True)
class PowerLawPredictor:
    """Foretells the loss by a power law through the losses of the setting."""

    def run(self, past: Past, epochs: int) -> Forecast:
        """The change of the loss in each of the next ``epochs``; the first leads from the loss seen to the curve."""
        curve, seen = fit(past.losses), len(past.losses)
        path = [past.loss, *(curve.loss(seen + ahead) for ahead in range(1, epochs + 1))]
        expected = [after - before for before, after in pairwise(path)]
        totals = [after - past.loss for after in path[1:]]
        if seen < ENOUGH:
            noise, jitter = [abs(change) / 2 for change in expected], [abs(total) / 2 for total in totals]
        else:
            # The first change begins with a loss that was seen, each other between two that jitter.
            jitter = [curve.deviation * _WIDTH] * epochs
            noise = [width * (1.0 if ahead == 0 else 2**0.5) for ahead, width in enumerate(jitter)]
        return Forecast(
            expected=tuple(expected),
            low=tuple(mean - width for mean, width in zip(expected, noise, strict=True)),
            robust=tuple(mean + width for mean, width in zip(expected, noise, strict=True)),
            total_robust=tuple(mean + width for mean, width in zip(totals, jitter, strict=True)),
        )

    def change(self, past: Past, to: Setting) -> Forecast:
        """A fraction of what was learnt so far is expected to be lost, at worst all of it."""
        learnt = max(0.0, max(past.before + past.losses) - past.loss)
        left = (1 - to.pruning) / (1 - past.setting.pruning)
        lost = min(1.0, max(0.0, 1 - left))
        return Forecast(expected=(lost * learnt,), low=(0.0,), robust=(learnt,), total_robust=(learnt,))
