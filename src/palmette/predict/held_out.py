"""How well a learning curve predicts runs that it was not fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from palmette.errors import InputError
from palmette.predict.joint_fit import predicted_loss
from palmette.predict.learning_curve import MIN_POINTS, fit_learning_curve
from palmette.predict.loss_points import LossPoint

_KEPT = 0.9
"""The part of held-out losses that a margin is for."""


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
    if sum(many) - max(many) < MIN_POINTS:
        return None
    found: list[list[_Predicted]] = []
    for train, test in LeaveOneGroupOut().split(runs, groups=of_run):
        found += _predicted([point for k in train for point in runs[k]], [runs[k] for k in test], start)
    if not found:
        return None
    told = np.array([each for run in found for each in run])
    predicted, real = told.T
    above = float(np.quantile(real / predicted - 1, _KEPT))
    return HeldOut(float(np.sqrt(np.mean((predicted - real) ** 2))), max(0.0, above), len(found))


_Predicted = tuple[float, float]
"""A loss by a curve, and as it was."""


def _predicted(
    train: Sequence[LossPoint], test: Sequence[Sequence[LossPoint]], start: float | None
) -> list[list[_Predicted]]:
    """The losses of those runs that others can tell of."""
    known = {coding for point in train for coding in point.codings}
    apart = any(point.window > 1 for point in train)
    told = [run for run in test if all(known.issuperset(p.codings) and (apart or p.window == 1) for p in run)]
    if not told:
        return []
    try:
        curve = fit_learning_curve(train, start)
    except InputError:  # without these runs, a codec of the others is never varied alone
        return []
    return [[(predicted_loss(curve, point), point.loss) for point in run] for run in told]
