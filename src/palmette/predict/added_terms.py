"""What windows and codecs cost, measured from the curve of runs without them.

    uncoded, window 1      the curve
    uncoded, windows       h^window_exponent     each run beside its twin with window 1
    coded                  c                     each run beside its twin without that codec

A twin is the run with the same seed over the same data, which has the same batches: what is unusual about them raises
or lowers the losses of both. A run without a twin is compared with the curve. So a codec with which nothing is learnt,
or a seed that is above all others, changes nothing but its own term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import least_squares

from palmette.predict.loss_points import Floats, LossPoint, coded, losses_of
from palmette.spec.codec_term import CodecTerm
from palmette.spec.learning import Learning

_MAX_POWER = 30.0
"""Of exponents, and of the logarithms of codecs' factors: what learns nothing has no more."""
_BEGIN = 0.01
_INSIDE = 1e-6
_EXACT = 1e-14
"""So that a codec with which nothing is learnt, and its large errors, do not end the search for the others early."""

Twins = Callable[[LossPoint], LossPoint | None]


def with_added_terms(curve: Learning, points: Sequence[LossPoint]) -> Learning:
    """A curve of runs without windows and codecs, with what these cost in others."""
    uncoded = [point for point in points if not point.codings]
    apart = [point for point in uncoded if point.window > 1]
    if apart:
        logarithms = np.log([[point.window] for point in apart])
        (exponent,) = _powers(curve, apart, logarithms, twins_among(points, lambda point: point._replace(window=1.0)))
        curve = curve.model_copy(update={"window_exponent": exponent})
    with_codec = [point for point in points if point.codings]
    codings = list(dict.fromkeys(coding for point in with_codec for coding in point.codings))
    if codings:
        powers = _powers(curve, with_codec, coded(with_codec, codings), twins_without_codecs(points))
        terms = [
            CodecTerm(of=each.of, codec=each.codec, factor=math.exp(power))
            for each, power in zip(codings, powers, strict=True)
        ]
        curve = curve.model_copy(update={"codecs": tuple(terms)})
    return curve


def twins_without_codecs(points: Sequence[LossPoint]) -> Twins:
    """The point of the same batches, agreement and epochs without codecs."""
    return twins_among(points, lambda point: point._replace(codings=()))


def twins_among(points: Sequence[LossPoint], plainer: Callable[[LossPoint], LossPoint]) -> Twins:
    """The point with the same seed, if it is known, that differs from one as ``plainer`` says."""
    known = {point._replace(loss=0.0): point for point in points if point.seed is not None}
    return lambda point: known.get(plainer(point)._replace(loss=0.0))


def log_product_beside(curve: Learning, point: LossPoint, twins: Twins) -> float:
    """The logarithm of the product of factors at a point but for what its twin does not have; else by the curve."""
    twin = twins(point)
    if twin is None:
        return curve.log_product(*point.bases)
    most = math.inf if curve.start is None else curve.start - (curve.start - curve.floor) * _INSIDE
    least = curve.floor * (1 + _INSIDE) + math.ulp(0.0)
    return curve.log_product_for(min(max(twin.loss, least), most))


def _powers(curve: Learning, points: Sequence[LossPoint], columns: Floats, twins: Twins) -> list[float]:
    """The powers of some columns, of at least 0, with the least squared error of the loss's logarithm."""
    beside, logarithms = [log_product_beside(curve, each, twins) for each in points], np.log(losses_of(points))

    def errors(powers: Floats) -> Floats:
        found = [curve.loss_from(own + more) for own, more in zip(beside, columns @ powers, strict=True)]
        return np.asarray(np.log(found) - logarithms, dtype=np.float64)

    begin, exact = np.full(columns.shape[1], _BEGIN), {"ftol": _EXACT, "xtol": _EXACT, "gtol": _EXACT}
    found = least_squares(errors, begin, bounds=(0.0, _MAX_POWER), **exact).x
    return [float(each) if each > _INSIDE else 0.0 for each in found]
