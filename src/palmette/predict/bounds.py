"""Lower bounds of the robust estimate (end of Section IV of PACT).

A network may predict more progress than theory allows. A bound is the least (most favourable) change of the loss that
may be assumed: of each of the next epochs, or of a change of setting. Where the robust estimate is below it, the bound
replaces it. A bound is any function of the history; two that PACT cites are here:

    FedAvgBound        of λ_run: Li et al., On the convergence of FedAvg on non-IID data, Theorem 1
    OutputShiftBound   of λ_change: how far the outputs of the pruned network can be from those of the whole, which
                       data-free pruning such as RED++ knows beforehand

Nobody knows their constants before a training. What is applied by default are both with constants that curves tell:

    ConvergenceBound   the tightest bound of Theorem 1's form that the mean of the curves keeps, or that the losses of
                       this training kept so far
    LearntShiftBound   OutputShiftBound with the shift that prunings of the curves had on average
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from palmette.predict.examples import ChangeExample
from palmette.predict.forecast import Forecast, History, Predictor, Setting
from palmette.spec.curves import Curve

_OFFSETS = np.geomspace(0.1, 1e4, 201)  # epochs
RunBound = Callable[[History, int], Sequence[float]]  # the least change in each of so many epochs
ChangeBound = Callable[[History, Setting], float]


@dataclass(frozen=True)
class BoundedPredictor:
    """A predictor whose robust estimates are never below the bounds."""

    predictor: Predictor
    run_bound: RunBound | None = None
    change_bound: ChangeBound | None = None

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        """The predictor's, the robust changes no lower than the bound's."""
        forecast = self.predictor.predict_epochs(history, epochs)
        return forecast if self.run_bound is None else _apply_bound(forecast, self.run_bound(history, epochs))

    def predict_change(self, history: History, to: Setting) -> Forecast:
        """The predictor's, the robust change no lower than the bound's."""
        forecast = self.predictor.predict_change(history, to)
        return forecast if self.change_bound is None else _apply_bound(forecast, [self.change_bound(history, to)])


def _apply_bound(forecast: Forecast, least: Sequence[float]) -> Forecast:
    robust = tuple(max(pair) for pair in zip(forecast.robust, least, strict=True))
    steps = (max(pair) for pair in zip(forecast.steps_robust, least, strict=True))
    return replace(forecast, robust=robust, total_robust=tuple(accumulate(steps)))


@dataclass(frozen=True, kw_only=True)
class FedAvgBound:
    """By how much an epoch may be assumed to lower the loss, by Theorem 1 of Li et al. (ICLR 2020).

    For losses that are ``smoothness``-smooth and ``convexity``-strongly convex (L and μ), after T steps

        loss − least loss ≤ κ / (γ + T − 1) · (2 B / μ + μ γ / 2 · distance),    κ = L / μ,  γ = max(8 κ, E)

    with the squared ``distance`` Δ of the first weights from the best, E (``local_steps``) steps between two averages,
    and B (``noise``) = Σ p² σ² + 6 L Γ + 8 (E − 1)² G²: each node's share of the data p and its gradients' variance
    σ², how much less than the least common loss the nodes' own least losses are on average (Γ), and the largest mean
    square of a gradient (G²). None of these can be known from losses alone: whoever wants the bound supplies them.

    Why: with steps of η_t = 2 / (μ (γ − 1 + t)) the distance obeys Δ_(t+1) ≤ (1 − η_t μ) Δ_t + η_t² B (their Lemmas 1
    to 3), so that Δ_t ≤ (4 B / μ² + γ Δ) / (γ − 1 + t) by induction; and a smooth loss is at most L / 2 · Δ_T above
    its least.

    An epoch has ``epoch_steps`` steps, and is assumed to lower the loss by as much as it lowers this bound.
    """

    smoothness: float
    convexity: float
    noise: float
    distance: float
    epoch_steps: int
    local_steps: int = 1

    def __call__(self, history: History, epochs: int) -> list[float]:
        """The least change of each of the next epochs."""
        done = len(history.losses) - 1
        excess = [self.excess_loss(1 + self.epoch_steps * (done + ahead)) for ahead in range(epochs + 1)]
        return [after - before for before, after in pairwise(excess)]

    def excess_loss(self, steps: int) -> float:
        """How far above its minimum the loss can be after so many steps, from 1."""
        ratio = self.smoothness / self.convexity
        offset = max(8 * ratio, self.local_steps)
        start = 2 * self.noise / self.convexity + self.convexity * offset / 2 * self.distance
        return ratio / (offset + steps - 1) * start


@dataclass(frozen=True)
class OutputShiftBound:
    """By how much a change may raise the loss where the outputs move by ``shift`` at most (their Euclidean norm).

    The cross entropy of a sample changes by at most √2 for each unit that its outputs move.
    """

    shift: float

    def __call__(self, history: History, to: Setting) -> float:
        """The most that the loss can rise."""
        return 2**0.5 * self.shift


@dataclass(frozen=True)
class ConvergenceRate:
    """Theorem 1 with steps counted in epochs: the excess loss of a setting is at most scale / (offset + epochs).

    ``offset`` is γ; ``scale`` stands for all other constants of ``FedAvgBound``, in units of the first excess loss.
    """

    scale: float
    offset: float

    def least_changes(self, done: int, epochs: int) -> list[float]:
        """The changes of the next epochs, as multiples of the first excess loss."""
        excess = [self.scale / (self.offset + done + ahead) for ahead in range(epochs + 1)]
        return [after - before for before, after in pairwise(excess)]


def fit_rate(excess: Sequence[float]) -> ConvergenceRate | None:
    """The tightest rate that excess losses after 0, 1, 2, … epochs keep, they themselves and by how much they fall.

    None where they are too few, or there is no excess.
    """
    if len(excess) < 2 or not excess[0] > 0:
        return None
    heights = np.asarray(excess, dtype=float) / excess[0]
    epochs = np.arange(heights.size)
    reached = _OFFSETS[:, None] + epochs
    falls = (heights[:-1] - heights[1:]) * reached[:, :-1] * reached[:, 1:]
    scales = np.maximum((heights * reached).max(axis=1), falls.max(axis=1))
    best = int((scales[:, None] / reached).mean(axis=1).argmin())
    return ConvergenceRate(float(scales[best]), float(_OFFSETS[best]))


@dataclass(frozen=True)
class ConvergenceBound:
    """By how much an epoch may be assumed to lower the loss, at a rate; without one, at that of the losses so far."""

    rate: ConvergenceRate | None
    floor: float = 0.0

    def __call__(self, history: History, epochs: int) -> list[float]:
        """The least change of each of the next epochs; minus infinity where nothing is known."""
        excess = [max(0.0, loss - self.floor) for loss in history.losses]
        rate = self.rate or fit_rate(excess)
        if rate is None:
            return [-math.inf] * epochs
        return [excess[0] * change for change in rate.least_changes(len(excess) - 1, epochs)]


@dataclass(frozen=True)
class LearntShiftBound:
    """``OutputShiftBound`` with a shift in proportion to what was learnt and to the part of the rest that is removed.

    Outputs that are all lost leave an untrained network's loss: to shift them by ``share`` of themselves costs as much
    of what was learnt.
    """

    share: float

    def __call__(self, history: History, to: Setting) -> float:
        """By how much the loss rises on average."""
        removed, learnt = removed_and_learnt(history, to)
        return OutputShiftBound(self.share * removed * learnt / 2**0.5)(history, to)


def removed_and_learnt(history: History, to: Setting) -> tuple[float, float]:
    """The fraction of the parameters left that a change removes, and by how much the loss has fallen before it."""
    removed = 1 - (1 - to.pruning) / (1 - history.setting.pruning)
    return max(0.0, removed), max(0.0, max(history.earlier + history.losses) - history.loss)


@dataclass(frozen=True)
class BoundConstants:
    """What curves tell about the bounds: the rate of ``ConvergenceBound``, and the share of ``LearntShiftBound``."""

    rate: ConvergenceRate | None = None
    share: float | None = None

    @classmethod
    def of(cls, curves: Iterable[Curve], changes: Sequence[ChangeExample], floor: float = 0.0) -> BoundConstants:
        """The constants of curves and their changes of setting."""
        found = [removed_and_learnt(each.history, each.to) for each in changes]
        weights = sum(removed * learnt for removed, learnt in found)
        share = max(0.0, sum(each.change for each in changes)) / weights if weights > 0 else None
        return cls(fit_rate(_mean_excess(curves, floor)), share)

    @classmethod
    def parsed(cls, data: Any) -> BoundConstants:
        """The constants as ``asdict`` and JSON have left them.

        Raises:
            KeyError, TypeError, ValueError: they are none.
        """
        rate, share = data["rate"], data["share"]
        numbers = [*([] if rate is None else (rate["scale"], rate["offset"])), *([] if share is None else [share])]
        if not all(0 <= float(number) < math.inf for number in numbers):
            raise ValueError(f"constants of {numbers}")
        return cls(None if rate is None else ConvergenceRate(float(rate["scale"]), float(rate["offset"])), share)

    def bounds(self, floor: float) -> tuple[RunBound, ChangeBound | None]:
        """Those of λ_run and of λ_change, which is None where nothing is known about it."""
        return ConvergenceBound(self.rate, floor), None if self.share is None else LearntShiftBound(self.share)


NO_CONSTANTS = BoundConstants()


def _mean_excess(curves: Iterable[Curve], floor: float) -> list[float]:
    """The excess loss of a mean phase after 0, 1, 2, … epochs, as a fraction of that at its start.

    In each epoch it changes by the mean of the phases that have it: shorter ones do not end with a jump.
    """
    phases = {(phase.start_loss, *phase.losses) for curve in curves for phase in curve.phases}
    ratios = [[(loss - floor) / (losses[0] - floor) for loss in losses] for losses in phases if losses[0] > floor]
    changes = [[after - before for before, after in pairwise(each)] for each in ratios]
    by_epoch = ([each[k] for each in changes if k < len(each)] for k in range(max(map(len, changes), default=0)))
    return [max(0.0, each) for each in accumulate((sum(each) / len(each) for each in by_epoch), initial=1.0)]
