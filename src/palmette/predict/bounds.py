"""Lower bounds of the robust estimate (end of Section IV of PACT).

A network may predict more progress than theory allows. A bound is the least (most favourable) change of the loss that
may be assumed: of each of the next epochs, or of a change of setting. Where the robust estimate is below it, the bound
replaces it. A bound is any function of the history; two that PACT cites are here:

    FedAvgBound        of λ_run: Li et al., On the convergence of FedAvg on non-IID data, Theorem 1
    OutputShiftBound   of λ_change: how far the outputs of the pruned network can be from those of the whole, which
                       data-free pruning such as RED++ knows beforehand
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from palmette.predict.forecast import Forecast, History, Predictor, Setting

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
