"""The losses of runs, and what they depend on as the columns of a least-squares fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from palmette.spec.codec_term import Coding

Floats = np.ndarray[Any, np.dtype[np.float64]]
EPOCHS, DATA, REPLICAS, WINDOW = range(4)
"""The numbers of the bases."""
_SIGNS = (-1.0, -1.0, 1.0, 1.0)  # of their exponents
_LEAST = (0.0, 0.0, -np.inf, 0.0)  # of the exponents


class LossPoint(NamedTuple):
    """The loss after so many epochs over a fraction of the data, in so many replicas that took so many steps apart."""

    epochs: float
    fraction: float
    replicas: int
    loss: float
    window: float = 1.0
    codings: tuple[Coding, ...] = ()
    """What travelled coded."""
    seed: int | None = None
    """That of its run, where it is known: runs of one seed over the same data have the same batches."""
    in_turn: bool = False
    """Whether epochs over a part of the data take all of it in turn, as where every source gives a part of its own."""

    @property
    def bases(self) -> tuple[float, float, int, float]:
        """What the loss depends on, in the order of ``Learning.loss``."""
        return self.epochs, self.fraction, self.replicas, self.window

    @property
    def run(self) -> tuple[object, ...]:
        """What the points of its run have in common, and hardly those of another."""
        return self.fraction, self.replicas, self.window, self.codings, self.seed


class Design(NamedTuple):
    """What the logarithm of the loss above the floor is linear in, by point: a constant, the factors, the codings."""

    varied: list[int]
    """The bases that have a column, by their number."""
    codings: list[Coding]
    columns: Floats
    by_samples: bool = False
    """Whether the column of epochs is that of φ·k, and that of data, if there is one, what φ alone adds."""

    @property
    def least_powers(self) -> list[float]:
        """The least values of the exponents, and of the logarithms of codecs' factors."""
        return [*(_LEAST[k] for k in self.varied), *(0.0 for _ in self.codings)]

    def without(self, base: int) -> Design:
        """The same without the column of a base."""
        columns = np.delete(self.columns, 1 + self.varied.index(base), axis=1)
        return self._replace(varied=[k for k in self.varied if k != base], columns=columns)


def design_of(points: Sequence[LossPoint]) -> Design:
    """The design of a fit to some points."""
    bases = np.array([point.bases for point in points], dtype=np.float64).T
    logarithms = [sign * np.log(base) for sign, base in zip(_SIGNS, bases, strict=True)]
    varied = [k for k, column in enumerate(logarithms) if np.ptp(column) > 0]
    by_samples = EPOCHS in varied and DATA in varied
    if by_samples:
        logarithms[EPOCHS] = logarithms[EPOCHS] + logarithms[DATA]
        if all(point.in_turn for point in points):
            varied.remove(DATA)
    codings = list(dict.fromkeys(coding for point in points for coding in point.codings))
    columns = np.column_stack([np.ones(len(points)), *(logarithms[k] for k in varied), coded(points, codings)])
    return Design(varied, codings, columns, by_samples)


def coded(points: Sequence[LossPoint], codings: Sequence[Coding]) -> Floats:
    """A column for each coding: 1 where a point has it."""
    return np.array([[float(coding in point.codings) for coding in codings] for point in points]).reshape(
        len(points), len(codings)
    )


def losses_of(points: Sequence[LossPoint]) -> Floats:
    """The losses alone."""
    return np.array([point.loss for point in points])


def means_by_run(points: Sequence[LossPoint], values: Floats) -> Floats:
    """The means of the points of each run."""
    runs: dict[object, list[Floats]] = {}
    for point, each in zip(points, values, strict=True):
        runs.setdefault(point.run, []).append(each)
    return np.array([np.mean(each, axis=0) for each in runs.values()])
