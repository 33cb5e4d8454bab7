"""A learning curve through the losses of real runs.

    loss = floor + scale · φ^(−data_exponent) · g^(replica_exponent) · k^(−epoch_exponent)

Each run gives points (k, φ, g, loss), one an epoch. For a given floor, log(loss − floor) is linear in the logarithms of
k, φ and g, solved by least squares with exponents of k and φ at least 0; the floor with the least squared error of the
loss itself is found by a scan. What no run varies, an exponent cannot be fitted to: it is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palmette.errors import Fault, InputError
from palmette.spec.learning import Learning

_FLOORS = 400
_FEWEST = 3
_MOST = 1e9
_SCALES = (1e-18, 1e18)


class Point(NamedTuple):
    """The loss after so many epochs over a fraction of the data, in so many replicas."""

    epochs: float
    fraction: float
    replicas: int
    loss: float


def fitted(points: Sequence[Point]) -> Learning:
    """The curve with the least squared error of the loss.

    Raises:
        InputError: there are too few points, or the loss does not fall.
    """
    if len(points) < _FEWEST:
        raise InputError(Fault("runs", f"{len(points)} points", f"expected at least {_FEWEST} epochs with a loss"))
    lowest, highest = min(point.loss for point in points), max(point.loss for point in points)
    if lowest <= 0:
        raise InputError(Fault("runs", lowest, "expected losses above 0"))
    if highest > _MOST:
        raise InputError(Fault("runs", highest, f"expected losses of at most {_MOST:g}"))
    tried = [_with_floor(points, lowest * (1 - 0.5 ** (10 * k / _FLOORS))) for k in range(_FLOORS)]
    return min(tried, key=lambda curve: error(curve, points))


def error(curve: Learning, points: Sequence[Point]) -> float:
    """The root of the mean squared error of the loss."""
    squares = [(curve.loss(*point[:3]) - point.loss) ** 2 for point in points]
    return math.sqrt(sum(squares) / len(squares))


def left_out_error(runs: Sequence[Sequence[Point]]) -> float | None:
    """The error on each run of a curve fitted to the others, over all; None where too little would be left."""
    if sum(map(len, runs)) - max(map(len, runs)) < _FEWEST:
        return None
    squares = []
    for k, run in enumerate(runs):
        curve = fitted([point for j, other in enumerate(runs) for point in other if j != k])
        squares += [(curve.loss(*point[:3]) - point.loss) ** 2 for point in run]
    return math.sqrt(sum(squares) / len(squares))


def _with_floor(points: Sequence[Point], floor: float) -> Learning:
    """The best curve with a floor, by least squares on logarithms; a negative exponent of k or φ becomes 0."""
    columns = {
        "epoch_exponent": np.array([-math.log(point.epochs) for point in points]),
        "data_exponent": np.array([-math.log(point.fraction) for point in points]),
        "replica_exponent": np.array([math.log(point.replicas) for point in points]),
    }
    aim = np.log([point.loss - floor for point in points])
    used = [name for name, column in columns.items() if np.ptp(column) > 0]
    while True:
        matrix = np.column_stack([np.ones(len(points)), *(columns[name] for name in used)])
        found = np.linalg.lstsq(matrix, aim, rcond=None)[0]
        exponents = dict(zip(used, found[1:].tolist(), strict=True))
        wrong = [name for name in used if exponents[name] < 0 and name != "replica_exponent"]
        if not wrong:
            break
        used.remove(wrong[0])
    known = {name: max(-1000.0, min(1000.0, exponents.get(name, 0.0))) for name in columns}
    return Learning(floor=floor, scale=float(np.exp(np.clip(found[0], *np.log(_SCALES)))), **known)
