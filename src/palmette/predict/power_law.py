"""A plain power law through the losses of a setting: loss after k − 1 epochs = floor + scale · k^(−exponent).

Least squares with floor and scale at least 0. For a given exponent that is a line in k^(−exponent), solved in closed
form; the exponent is found by a scan and a golden-section search. The quantiles are those of normal noise about the
curve, as large as the curve's misfit. Fewer than ``ENOUGH`` losses say nothing about noise: then each change is
uncertain by half of itself, and fewer than three fix the exponent at ``USUAL_EXPONENT``.

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

USUAL_EXPONENT = 0.5
ENOUGH = 5
_EXPONENTS = np.geomspace(0.02, 5.0, 60)
_REFINEMENTS = 40
_GOLDEN = (5**0.5 - 1) / 2
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
        InputError: there is no loss, or one is not a finite number of 0 or more.
    """
    y = np.asarray(losses, dtype=float)
    if not y.size:
        raise InputError(Fault("losses", "none", "expected at least one"))
    if not (np.isfinite(y).all() and (y >= 0).all()):
        wrong = next(each for each in losses if not 0 <= each < float("inf"))
        raise InputError(Fault("losses", wrong, "expected a finite number of 0 or more"))
    exponent = USUAL_EXPONENT if y.size < 3 else _best_exponent(y)
    floor, scale, misfit = _line(y, exponent)
    deviation = (misfit / (y.size - 3)) ** 0.5 if y.size >= ENOUGH else 0.0
    return PowerLaw(floor, scale, exponent, deviation)


def _best_exponent(y: Numbers) -> float:
    misfits = [_line(y, exponent)[2] for exponent in _EXPONENTS]
    at = int(np.argmin(misfits))
    low, high = _EXPONENTS[max(at - 1, 0)], _EXPONENTS[min(at + 1, len(_EXPONENTS) - 1)]
    for _ in range(_REFINEMENTS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if _line(y, left)[2] <= _line(y, right)[2]:
            high = right
        else:
            low = left
    return float((low + high) / 2)


def _line(y: Numbers, exponent: float) -> tuple[float, float, float]:
    """Floor and scale, at least 0, and the sum of squares that they leave."""
    z = np.arange(1, y.size + 1) ** -exponent
    spread = z - z.mean()
    steepness = float(spread @ spread)
    scale = float(spread @ y) / steepness if steepness > 0 else 0.0
    both = (float(y.mean() - scale * z.mean()), scale)
    edges = [(0.0, float(z @ y / (z @ z))), (float(y.mean()), 0.0)]
    tried = [both] if min(both) >= 0 and steepness > 0 else edges
    return min(((a, b, float(((y - a - b * z) ** 2).sum())) for a, b in tried), key=lambda found: found[2])


@dataclass(frozen=True)
class PowerLawPredictor:
    """Foretells the loss by a power law through the losses of the setting."""

    def run(self, past: Past, epochs: int) -> Forecast:
        """The change of the loss in each of the next ``epochs``; the first leads from the loss seen to the curve."""
        curve, seen = fit(past.losses), len(past.losses)
        path = [past.loss, *(curve.loss(seen + ahead) for ahead in range(1, epochs + 1))]
        expected = [after - before for before, after in pairwise(path)]
        noise = [curve.deviation * _WIDTH * (1.0 if ahead == 0 else 2**0.5) for ahead in range(epochs)]
        if seen < ENOUGH:
            noise = [abs(change) / 2 for change in expected]
        return _around(expected, noise, noise)

    def change(self, past: Past, to: Setting) -> Forecast:
        """A fraction of what was learnt so far is expected to be lost, at worst all of it."""
        learnt = max(0.0, max(past.before + past.losses) - past.loss)
        left = (1 - to.pruning) / (1 - past.setting.pruning)
        lost = min(1.0, max(0.0, 1 - left))
        return _around([lost * learnt], [lost * learnt], [(1 - lost) * learnt])


def _around(expected: list[float], below: list[float], above: list[float]) -> Forecast:
    return Forecast(
        expected=tuple(expected),
        low=tuple(mean - width for mean, width in zip(expected, below, strict=True)),
        robust=tuple(mean + width for mean, width in zip(expected, above, strict=True)),
    )
