"""The input and output of a predictor (Section IV of PACT).

A training goes through settings: so much of the model removed, trained on so much data. From the setting and the losses
so far, a predictor predicts how the loss will change, in each of the next epochs (λ_run) or when the setting changes
(λ_change): the expected change, and the 0.05 and 0.95 quantiles. The upper quantile is the robust estimate, which the
true change exceeds once in twenty times.

    losses of a setting:   at its start, after its first epoch, after its second, …

The loss at the start is that of a forward pass, before any weight is updated: after a change it is the loss that the
smaller model begins with, on the new nodes' data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Protocol

QUANTILES = (0.05, 0.95)
UNKNOWN = "unknown range: the predictor's file does not say what it was taught"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is trained: the fraction of parameters removed from the model, and the samples and classes of the data."""

    pruning: float = 0.0
    samples: int
    classes: int


@dataclass(frozen=True, kw_only=True)
class History:
    """A training so far: its setting, the losses since that began (at its start first), and earlier ones."""

    setting: Setting
    losses: tuple[float, ...]
    earlier: tuple[float, ...] = ()

    @property
    def loss(self) -> float:
        """The loss now."""
        return self.losses[-1]

    def extended(self, *losses: float) -> History:
        """The history some epochs later."""
        return replace(self, losses=(*self.losses, *losses))

    def changed(self, to: Setting, loss: float) -> History:
        """The history after a change of setting, which begins with ``loss``."""
        return History(setting=to, losses=(loss,), earlier=(*self.earlier, *self.losses))


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Predicted changes of the loss, one per epoch: expected, and the 0.05 and 0.95 quantiles (``robust``).

    ``total_robust`` is the 0.95 quantile of the change from now up to each epoch. An epoch's loss jitters, and its own
    quantile includes all of the jitter; added up over many epochs that would predict a rise where none is possible. The
    total includes the jitter once.

    ``outside`` says in which respects this is outside of what the predictor was taught, ``floor`` which loss is the
    least that is possible.
    """

    expected: tuple[float, ...]
    low: tuple[float, ...]
    robust: tuple[float, ...]
    total_robust: tuple[float, ...]
    outside: tuple[str, ...] = ()
    floor: float = 0.0

    @property
    def steps_robust(self) -> tuple[float, ...]:
        """Changes that add up to ``total_robust``, to plan many epochs with."""
        return tuple(after - before for before, after in pairwise((0.0, *self.total_robust)))


def floored(forecast: Forecast, loss: float, floor: float, outside: tuple[str, ...] = ()) -> Forecast:
    """The forecast with losses that are possible, its quantiles in order, and what is outside of what was taught."""
    expected, total, least = [], 0.0, floor - loss
    for change in forecast.expected:
        expected.append(max(change, least - total))
        total += expected[-1]
    totals = list(accumulate(expected))
    lowest = [least - total + change for total, change in zip(totals, expected, strict=True)]
    return Forecast(
        expected=tuple(expected),
        low=tuple(min(max(low, most), mean) for low, most, mean in zip(forecast.low, lowest, expected, strict=True)),
        robust=tuple(max(pair) for pair in zip(forecast.robust, expected, strict=True)),
        total_robust=tuple(max(pair) for pair in zip(forecast.total_robust, totals, strict=True)),
        outside=outside,
        floor=floor,
    )


def outside_notes(subject: str, forecast: Forecast) -> list[str]:
    """For people: in which respects a forecast about a subject is outside of what the predictor was taught."""
    return [
        each if each == UNKNOWN else f"{subject}: predicted beyond what was taught: {each}" for each in forecast.outside
    ]


class Predictor(Protocol):
    """Predicts the loss."""

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        """The change of the loss in each of the next ``epochs``, the setting staying as it is."""
        ...

    def predict_change(self, history: History, to: Setting) -> Forecast:
        """The one change of the loss when the setting becomes ``to``, before any epoch in it."""
        ...
