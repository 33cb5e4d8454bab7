"""A learning curve through the losses of real runs.

    loss = floor + scale · φ^(−data_exponent) · g^(replica_exponent) · h^(window_exponent) · c · k^(−epoch_exponent)

Each run gives points (k, φ, g, h, codings, loss), one per epoch, or one at its end. The curve is that of the runs that
agree after every step with nothing coded, by least squares (``joint_fit``); what windows and codecs cost is then
measured from it (``added_terms``). Where those runs do not vary all that others do, everything is fitted at once.

An exponent that no run varies the base of cannot be fitted: it is 0, and ``fitted_on`` says so; that of h is None. A
codec needs a run that differs from others in nothing else that is fitted. Replicas that agree after every step learn
what one does, but for batch normalization: their exponent is 0 unless runs differ by more than chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.stats import f as f_distribution

from palmette.errors import Fault, InputError
from palmette.predict.added_terms import with_added_terms
from palmette.predict.joint_fit import fit_jointly, predicted_loss
from palmette.predict.loss_points import REPLICAS, Design, LossPoint, design_of, means_by_run
from palmette.spec.learning import FACTORS, FittedValue, Learning

MIN_POINTS = 3
_LEAST_LOSS, _MOST_LOSS = 1e-12, 1e9
_CHANCE = 0.005
"""How seldom replicas that do not matter may seem to."""


def fit_learning_curve(points: Sequence[LossPoint], start: float | None = None) -> Learning:
    """The curve with the least squared error of the loss; ``start`` is the loss before training, if it is known.

    Raises:
        InputError: there are too few points, a loss is too small or too large, or a codec is never varied alone.
    """
    if len(points) < MIN_POINTS:
        raise InputError(Fault("runs", f"{len(points)} points", f"expected at least {MIN_POINTS} losses"))
    lowest, highest = min(point.loss for point in points), max(point.loss for point in points)
    if lowest < _LEAST_LOSS:
        raise InputError(Fault("runs", lowest, f"expected losses above 0, of at least {_LEAST_LOSS:g}"))
    if highest > _MOST_LOSS:
        raise InputError(Fault("runs", highest, f"expected losses of at most {_MOST_LOSS:g}"))
    _refuse_confounded(design_of(points))
    plain = [point for point in points if point.window == 1 and not point.codings]
    if len(plain) >= MIN_POINTS and _varied(plain) == _varied(points):
        curve = with_added_terms(_fit(plain, start, lowest), points)
    else:
        curve = _fit(points, start, lowest)
    return curve.model_copy(update={"fitted_on": _ranges(points)})


def _fit(points: Sequence[LossPoint], start: float | None, lowest: float) -> Learning:
    """A joint fit, with an exponent of replicas only if they matter."""
    design = design_of(points)
    curve = fit_jointly(points, design, start, lowest)
    if REPLICAS not in design.varied:
        return curve
    without = fit_jointly(points, design.without(REPLICAS), start, lowest)
    return curve if _replicas_matter(points, design, curve, without) else without


def _replicas_matter(points: Sequence[LossPoint], design: Design, curve: Learning, without: Learning) -> bool:
    """Whether a curve with an exponent of replicas is nearer to whole runs than one without, by more than chance.

    An F-test over runs. Of a single loss nobody can say whether the number of replicas or the run itself is unusual.
    """
    if min(Counter(point.replicas for point in points).values()) == 1:
        return False
    by_run = means_by_run(points, design.columns)
    spare = len(by_run) - int(np.linalg.matrix_rank(by_run))
    if spare < 1:
        return True
    left, more = _squares(curve, points), _squares(without, points)
    return (more - left) * spare > left * float(f_distribution.isf(_CHANCE, 1, spare))


def _squares(curve: Learning, points: Sequence[LossPoint]) -> float:
    """By how much runs differ from a curve: the squares of the means of their logarithms, added."""
    off = np.array([math.log(point.loss / predicted_loss(curve, point)) for point in points])
    return float(np.sum(means_by_run(points, off) ** 2))


def _varied(points: Sequence[LossPoint]) -> set[FittedValue]:
    """The factors that some of the points vary."""
    return {name for name in FACTORS if len({point.bases[FACTORS.index(name)] for point in points}) > 1}


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
