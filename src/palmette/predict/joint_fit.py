"""Least squares through losses: all exponents and factors of codecs at once.

For a given floor, log(loss − floor) is linear in the logs of epochs, data, replicas and windows, and in whether
something travels coded: least squares with exponents of epochs, data and windows of at least 0, and factors of codecs
of at least 1, as what is lost on the way teaches nothing. The floor is the one with the least squared error of the loss
itself.

**A sample that is new is worth as much as one that comes again, at least**: k epochs over φ of the data are φ·k
samples, so that data_exponent >= epoch_exponent. What is fitted is therefore the exponent of φ·k, and what that of φ
has more, at least 0: only where runs left out sources, whose samples they never saw. Else an epoch over a part of the
data is a shorter one, and the next goes on with other samples.

**What runs do not tell of the floor is taken to be half of the lowest loss.** Short runs go as well with a floor just
below their losses and a steep curve as with none and a flat one. So floors count as about half of the lowest loss, give
or take three twentieths, as sure as the losses themselves are: where these are exact, that changes nothing.

Where the loss before training is known, curves that begin there are fitted, too, and the best is taken: small networks
stay at that loss for some epochs before it falls. They leave it as sharply as ``knee`` says: seldom do runs tell, and
then the usual one is taken, with which the steep losses near the start say little about those that follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from scipy.optimize import OptimizeResult, least_squares, lsq_linear

from palmette.predict.loss_points import WINDOW, Design, Floats, LossPoint, losses_of
from palmette.predict.scalar_minimum import scalar_minimum
from palmette.spec.codec_term import CodecTerm
from palmette.spec.learning import Learning

_HALVINGS = np.linspace(0.0, 9.975, 40)
"""Floors that are tried: the lowest loss minus 0.5^halvings of it."""
_USUAL_FLOOR, _SPREAD = 0.5, 0.15
"""The floor as a part of the lowest loss where runs do not tell, and how far from that is as rare as a usual error."""
_SCALES = (1e-18, 1e18)
_MAX_EXPONENT = 1000.0
_MAX_POWER = 100.0
_MAX_LOG_FACTOR = 30.0
"""Of a codec: what learns nothing has no more."""
_MAX_STEEPNESS = 50.0
"""Of exponents, and of the logarithms of codecs' factors, where a curve has a start."""
_USUAL_KNEE, _OTHER_KNEES = 8.0, (1.0, 2.0)
_CLEARLY, _EXACT = 0.5, 1e-4
"""Another knee has to lower the error to this part of it, and an error that is this part of the loss is none."""
_FLOORS, _STEEPER = (0.1, 0.9), (1.0, 3.0)
"""Where curves with a start are looked for: parts of the lowest loss, multiples of the exponents without a start."""
_INSIDE = 1e-6


def fit_jointly(points: Sequence[LossPoint], design: Design, start: float | None, lowest: float) -> Learning:
    """The curve with the least squared error of the loss, in the terms of a design.

    ``lowest`` is the lowest loss that any run had, those of other points too: floors are below it.
    """
    losses = losses_of(points)
    best = _without_start(points, design, losses, lowest)
    if start is None or start <= losses.min():
        return best
    usual = _from_start(best, design, losses, start, _USUAL_KNEE, lowest=lowest)
    needed = max(_CLEARLY * rms_error(usual, points), _EXACT * losses.min())
    others = [_from_start(best, design, losses, start, knee, lowest=lowest) for knee in _OTHER_KNEES]
    clearly = [each for each in others if rms_error(each, points) < needed < rms_error(usual, points)]
    return min([best, *(clearly or [usual])], key=lambda each: rms_error(each, points))


def predicted_loss(curve: Learning, point: LossPoint) -> float:
    """The loss by a curve."""
    return curve.coded("", point.codings).loss(*point.bases)


def rms_error(curve: Learning, points: Sequence[LossPoint]) -> float:
    """The root of the mean squared error of the loss."""
    return math.hypot(*(predicted_loss(curve, point) - point.loss for point in points)) / math.sqrt(len(points))


def _unlikely(share: float) -> float:
    """How far a floor, as a part of the lowest loss, is from the usual one, where 1 is as rare as a usual error."""
    return (share - _USUAL_FLOOR) / _SPREAD


def _usual_error(squares: float, design: Design) -> float:
    """That of a point, by the sum of squared errors; all terms and the floor are fitted."""
    return math.sqrt(squares / max(1, len(design.columns) - design.columns.shape[1] - 1))


def _without_start(points: Sequence[LossPoint], design: Design, losses: Floats, lowest: float) -> Learning:
    def curve(halvings: float) -> Learning:
        return _with_floor(design, losses, lowest * (1 - 0.5**halvings))

    def squares(found: Learning) -> float:
        return rms_error(found, points) ** 2 * len(points)

    usual = _usual_error(squares(curve(scalar_minimum(lambda h: squares(curve(h)), _HALVINGS))), design)

    def objective(halvings: float) -> float:
        found = curve(halvings)
        return squares(found) + (usual * _unlikely(found.floor / lowest)) ** 2

    return curve(scalar_minimum(objective, _HALVINGS))


def _with_floor(design: Design, losses: Floats, floor: float) -> Learning:
    """The best curve with a given floor, by bounded least squares on logarithms."""
    least = [-np.inf, *design.least_powers]
    found = lsq_linear(design.columns, np.log(losses - floor), (least, np.inf), method="bvls").x
    return _curve_of(design, floor, np.maximum(found, least).tolist())  # bvls may be below by a rounding error


def _from_start(
    first: Learning, design: Design, losses: Floats, start: float, knee: float, *, lowest: float
) -> Learning:
    """The curve that begins at the loss before training, with the least squared error of the loss's logarithm.

    Found from the curve without a start, whose floor and steepness are too low: also from higher ones. Floors are
    looked for as parts of the lowest loss, so that no loss is too small for the search.
    """
    columns = design.columns
    least = np.array([0.0, -_MAX_POWER, *design.least_powers])
    most = np.array([1 - 0.5 ** _HALVINGS[-1], _MAX_POWER, *[_MAX_STEEPNESS] * (len(columns.T) - 1)])

    def errors(values: Floats) -> Floats:
        product = np.clip(columns @ values[1:], -_MAX_POWER, _MAX_POWER)
        floor = values[0] * lowest
        above = np.exp(-np.logaddexp(-knee * product, -knee * math.log(start - floor)) / knee)
        return np.asarray(np.log(floor + above) - np.log(losses), dtype=np.float64)

    def best(errors: Callable[[Floats], Floats], begins: Sequence[Floats]) -> OptimizeResult:
        inside = [np.clip(each, least + _INSIDE, most - _INSIDE) for each in begins]
        return min((least_squares(errors, each, bounds=(least, most)) for each in inside), key=lambda each: each.cost)

    scale, powers = math.log(first.scale), np.array(_powers(first, design))
    begins = [np.array([floor, scale, *(steeper * powers)]) for floor, steeper in product(_FLOORS, _STEEPER)]
    free = best(errors, begins)
    usual = _usual_error(2 * free.cost, design)
    found = best(lambda values: np.append(errors(values), usual * _unlikely(values[0])), [*begins, free.x])
    return _curve_of(design, float(found.x[0]) * lowest, found.x[1:].tolist(), start, knee)


def _curve_of(
    design: Design, floor: float, powers: Sequence[float], start: float | None = None, knee: float = 1.0
) -> Learning:
    """The curve whose scale's logarithm, exponents and codecs' factors these are, in the order of the columns."""
    scale, bounded = powers[0], [max(-_MAX_EXPONENT, min(_MAX_EXPONENT, each)) for each in powers[1:]]
    exponents = [0.0] * 4
    for k, exponent in zip(design.varied, bounded, strict=False):
        exponents[k] = exponent
    epochs, data, replicas, window = exponents
    data = min(_MAX_EXPONENT, epochs + data) if design.by_samples else data
    factors = zip(design.codings, bounded[len(design.varied) :], strict=True)
    return Learning(
        floor=floor,
        scale=math.exp(np.clip(scale, *np.log(_SCALES))),
        epoch_exponent=epochs,
        data_exponent=data,
        replica_exponent=replicas,
        window_exponent=window if WINDOW in design.varied else None,
        start=start,
        knee=knee,
        codecs=tuple(
            CodecTerm(of=coding.of, codec=coding.codec, factor=math.exp(min(power, _MAX_LOG_FACTOR)))
            for coding, power in factors
        ),
    )


def _powers(curve: Learning, design: Design) -> list[float]:
    """The exponents of a curve that vary, and the logarithms of its codecs' factors."""
    data = curve.data_exponent - (curve.epoch_exponent if design.by_samples else 0.0)
    exponents = (curve.epoch_exponent, data, curve.replica_exponent, curve.window_exponent or 0.0)
    return [*(exponents[k] for k in design.varied), *(math.log(term.factor) for term in curve.codecs)]
