"""A learning curve through the losses of real runs.

    loss = floor + scale · φ^(−data_exponent) · g^(replica_exponent) · h^(window_exponent) · c · k^(−epoch_exponent)

Each run gives points (k, φ, g, h, codings, loss), one per epoch. For a given floor, log(loss − floor) is linear in the
logs of k, φ, g and h, and in whether something travels coded: least squares with exponents of k, φ and h of at least 0,
and factors of codecs of at least 1, as what is lost on the way teaches nothing. The floor is the one with the least
squared error of the loss itself. An exponent that no run varies the base of cannot be fitted: it is 0, and
``fitted_on`` says so; that of h is None. A codec needs a run that differs from others in nothing else that is fitted.

**A sample that is new is worth as much as one that comes again, at least**: k epochs over φ of the data are φ·k
samples, so that data_exponent >= epoch_exponent. What is fitted is therefore the exponent of φ·k, and what that of φ
has more, at least 0.

Where the loss before training is known, a curve that begins there is fitted, too, and the better of the two is taken:
small networks stay at that loss for some epochs before it falls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares, lsq_linear
from sklearn.model_selection import LeaveOneGroupOut

from palmette.errors import Fault, InputError
from palmette.predict.scalar_minimum import scalar_minimum
from palmette.spec.codec_term import CodecTerm, Coding
from palmette.spec.learning import FACTORS, FittedValue, Learning

_HALVINGS = np.linspace(0.0, 9.975, 40)
"""Floors that are tried: the lowest loss minus 0.5^halvings of it."""
_MIN_POINTS = 3
_KEPT = 0.9
"""The part of held-out losses that a margin is for."""
_MAX_LOSS = 1e9
_SCALES = (1e-18, 1e18)
_MAX_EXPONENT = 1000.0
_MAX_POWER = 100.0
"""Of the logarithm of a codec's factor."""
_MAX_STEEPNESS = 50.0
"""Of exponents, and of the logarithms of codecs' factors, where a curve has a start."""
_FLOORS, _STEEPER = (0.1, 0.9), (1.0, 3.0)
"""Where curves with a start are looked for: parts of the lowest loss, multiples of the exponents without a start."""
_INSIDE = 1e-6
_SIGNS = (-1.0, -1.0, 1.0, 1.0)  # of the exponents of epochs, data, replicas and window
_LEAST = (0.0, 0.0, -np.inf, 0.0)  # of the exponents
_EPOCHS, _DATA, _WINDOW = 0, 1, 3
"""Their numbers among the bases."""


class LossPoint(NamedTuple):
    """The loss after so many epochs over a fraction of the data, in so many replicas that took so many steps apart."""

    epochs: float
    fraction: float
    replicas: int
    loss: float
    window: float = 1.0
    codings: tuple[Coding, ...] = ()
    """What travelled coded."""

    @property
    def bases(self) -> tuple[float, float, int, float]:
        """What the loss depends on, in the order of ``Learning.loss``."""
        return self.epochs, self.fraction, self.replicas, self.window


Floats = np.ndarray[Any, np.dtype[np.float64]]


class Design(NamedTuple):
    """What the logarithm of the loss above the floor is linear in, by point: a constant, the factors, the codings."""

    varied: list[int]
    """The bases that have a column, by their number."""
    codings: list[Coding]
    columns: Floats
    by_samples: bool = False
    """Whether the column of epochs is that of φ·k, and that of data what φ alone adds."""


def design_of(points: Sequence[LossPoint]) -> Design:
    """The design of a fit to some points."""
    bases = np.array([point.bases for point in points], dtype=np.float64).T
    logarithms = [sign * np.log(base) for sign, base in zip(_SIGNS, bases, strict=True)]
    varied = [k for k, column in enumerate(logarithms) if np.ptp(column) > 0]
    by_samples = _EPOCHS in varied and _DATA in varied
    if by_samples:
        logarithms[_EPOCHS] = logarithms[_EPOCHS] + logarithms[_DATA]
    codings = list(dict.fromkeys(coding for point in points for coding in point.codings))
    coded = [np.array([float(coding in point.codings) for point in points]) for coding in codings]
    columns = np.column_stack([np.ones(len(points)), *(logarithms[k] for k in varied), *coded])
    return Design(varied, codings, columns, by_samples)


def fit_learning_curve(points: Sequence[LossPoint], start: float | None = None) -> Learning:
    """The curve with the least squared error of the loss; ``start`` is the loss before training, if it is known.

    Raises:
        InputError: there are too few points, a loss is not above 0 or too large, or a codec is never varied alone.
    """
    if len(points) < _MIN_POINTS:
        raise InputError(Fault("runs", f"{len(points)} points", f"expected at least {_MIN_POINTS} losses"))
    lowest, highest = min(point.loss for point in points), max(point.loss for point in points)
    if lowest <= 0:
        raise InputError(Fault("runs", lowest, "expected losses above 0"))
    if highest > _MAX_LOSS:
        raise InputError(Fault("runs", highest, f"expected losses of at most {_MAX_LOSS:g}"))
    design, losses = design_of(points), np.array([point.loss for point in points])
    _refuse_confounded(design)

    def curve(halvings: float) -> Learning:
        return _fit_with_floor(design, losses, lowest * (1 - 0.5**halvings))

    best = curve(scalar_minimum(lambda halvings: rms_error(curve(halvings), points), _HALVINGS))
    if start is not None and start > lowest:
        best = min(best, fit_from_start(best, design, losses, start), key=lambda each: rms_error(each, points))
    return best.model_copy(update={"fitted_on": _ranges(points)})


def _refuse_confounded(design: Design) -> None:
    """Refuse codecs of which no run tells what they change, as those runs differ in something else as well.

    Raises:
        InputError: names them.
    """
    rank, first = np.linalg.matrix_rank(design.columns), design.columns.shape[1] - len(design.codings)
    for k, coding in enumerate(design.codings, first):
        if np.linalg.matrix_rank(np.delete(design.columns, k, axis=1)) == rank:
            expected = "runs with it and without it differ in something else, too; expected a run that differs in it"
            raise InputError(Fault("runs", str(coding), f"{expected} alone"))


def _ranges(points: Sequence[LossPoint]) -> dict[FittedValue, tuple[float, float]]:
    """The least and the largest value of each factor."""
    names: tuple[FittedValue, ...] = (*FACTORS, "window")
    columns = zip(*(point.bases for point in points), strict=True)
    return {name: (float(min(each)), float(max(each))) for name, each in zip(names, columns, strict=True)}


def rms_error(curve: Learning, points: Sequence[LossPoint]) -> float:
    """The root of the mean squared error of the loss."""
    return math.sqrt(sum((predicted_loss(curve, point) - point.loss) ** 2 for point in points) / len(points))


class HeldOut(NamedTuple):
    """The RMS error over runs, each predicted by a curve fitted to the others; and over how many runs it is.

    ``above`` is the part by which nine of ten losses are above the curve at most.
    """

    error: float
    above: float
    runs: int


def cross_validation_error(
    runs: Sequence[Sequence[LossPoint]],
    start: float | None = None,
    groups: Sequence[int] | None = None,
) -> HeldOut | None:
    """The error over runs that the others can predict; None where the others are too few.

    Runs of one of the ``groups`` are left out at once. The only run that trained apart, or that had a codec, cannot be
    predicted by others.
    """
    of_run = list(range(len(runs))) if groups is None else list(groups)
    many = [sum(len(run) for run, own in zip(runs, of_run, strict=True) if own == group) for group in set(of_run)]
    if sum(many) - max(many) < _MIN_POINTS:
        return None
    found: list[list[_Predicted]] = []
    for train, test in LeaveOneGroupOut().split(runs, groups=of_run):
        others = [point for k in train for point in runs[k]]
        tried = [_predicted(others, runs[k], start) for k in test]
        found += [each for each in tried if each is not None]
    if not found:
        return None
    told = np.array([each for run in found for each in run])
    predicted, real = told.T
    above = float(np.quantile(real / predicted - 1, _KEPT))
    return HeldOut(float(np.sqrt(np.mean((predicted - real) ** 2))), max(0.0, above), len(found))


_Predicted = tuple[float, float]
"""A loss by a curve, and as it was."""


def _predicted(train: Sequence[LossPoint], test: Sequence[LossPoint], start: float | None) -> list[_Predicted] | None:
    """The losses of a run that is predicted by others; None where they cannot tell."""
    design = design_of(train)
    if not {coding for point in test for coding in point.codings} <= set(design.codings):
        return None
    if any(point.window > 1 for point in test) and _WINDOW not in design.varied:
        return None
    try:
        curve = fit_learning_curve(train, start)
    except InputError:  # without this run, a codec of the others is never varied alone
        return None
    return [(predicted_loss(curve, point), point.loss) for point in test]


def predicted_loss(curve: Learning, point: LossPoint) -> float:
    """The loss by a curve."""
    return curve.coded("", point.codings).loss(*point.bases)


def _fit_with_floor(design: Design, losses: Floats, floor: float) -> Learning:
    """The best curve with a given floor, by bounded least squares on logarithms."""
    least = [-np.inf, *least_powers(design)]
    found = lsq_linear(design.columns, np.log(losses - floor), (least, np.inf), method="bvls").x
    return curve_of(design, floor, found.tolist())


def least_powers(design: Design) -> list[float]:
    """The least values of the exponents that vary, and of the logarithms of codecs' factors."""
    return [*(_LEAST[k] for k in design.varied), *(0.0 for _ in design.codings)]


def curve_of(design: Design, floor: float, powers: Sequence[float], start: float | None = None) -> Learning:
    """The curve whose scale's logarithm, exponents and codecs' factors these are, in the order of the columns."""
    scale, bounded = powers[0], [max(-_MAX_EXPONENT, min(_MAX_EXPONENT, each)) for each in powers[1:]]
    exponents = [0.0] * len(_SIGNS)
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
        window_exponent=window if _WINDOW in design.varied else None,
        start=start,
        codecs=tuple(
            CodecTerm(of=coding.of, codec=coding.codec, factor=math.exp(min(power, _MAX_POWER)))
            for coding, power in factors
        ),
    )


def fit_from_start(first: Learning, design: Design, losses: Floats, start: float) -> Learning:
    """The curve that begins at the loss before training, with the least squared error of the loss's logarithm.

    Found from the curve without a start, whose floor and steepness are too low: also from higher ones.
    """
    lowest, columns = float(losses.min()), design.columns
    least = np.array([0.0, -_MAX_POWER, *least_powers(design)])
    most = np.array([lowest * (1 - 0.5 ** _HALVINGS[-1]), _MAX_POWER, *[_MAX_STEEPNESS] * (len(columns.T) - 1)])

    def errors(values: Floats) -> Floats:
        above, room = np.exp(np.clip(columns @ values[1:], -_MAX_POWER, _MAX_POWER)), start - values[0]
        return np.asarray(np.log(values[0] + above * room / (above + room)) - np.log(losses), dtype=np.float64)

    known = np.array([first.floor, math.log(first.scale), *_powers(first, design)])
    tried = []
    for floor, steeper in product(_FLOORS, _STEEPER):
        begin = np.array([floor * lowest, known[1], *(steeper * known[2:])])
        begin = np.clip(begin, least + _INSIDE, most - _INSIDE)
        tried.append(least_squares(errors, begin, bounds=(least, most)))
    best = min(tried, key=lambda each: each.cost).x.tolist()
    return curve_of(design, best[0], best[1:], start)


def _powers(curve: Learning, design: Design) -> list[float]:
    """The exponents of a curve that vary, and the logarithms of its codecs' factors."""
    data = curve.data_exponent - (curve.epoch_exponent if design.by_samples else 0.0)
    exponents = (curve.epoch_exponent, data, curve.replica_exponent, curve.window_exponent or 0.0)
    return [*(exponents[k] for k in design.varied), *(math.log(term.factor) for term in curve.codecs)]
