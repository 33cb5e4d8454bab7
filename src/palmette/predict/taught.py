"""What a predictor was taught, and predictions beyond it: they widen towards the bound, and say so.

A network predicts anything, also for a pruning ratio, an epoch or a loss that no curve had. From the curves that it was
trained on, the least and the most of everything that it reads is kept (``TaughtRanges``), and of the changes of the
loss that it saw. All of these are positive numbers whose ratios count, so how far one is outside is the logarithm of
its ratio to the nearest end, as a fraction of the range's own width (that of a factor of 2 at least):

    weight   0 ──────────── 0 ────────── 1 ── 1
             inside         │ nearest    │ as far outside again as the range is wide
                            │ end

With the largest weight of all that it reads, the expected change moves to that of a power law, which extrapolates no
further than the losses of this training do; the robust one to the bound, which is no progress in an epoch and, for a
change of setting, to lose all that was learnt; the low one to the floor.

Wherever they are made, expected changes are none that is larger than any that was taught, and no loss falls below the
``floor``, the least that is possible: 0 for cross-entropy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from palmette.predict.bounds import NO_CONSTANTS, BoundConstants, removed_and_learnt
from palmette.predict.examples import ChangeExample, RunExample
from palmette.predict.forecast import UNKNOWN, Forecast, History, Predictor, Setting, floored
from palmette.predict.power_law import PowerLawPredictor

Range = tuple[float, float]
Features = dict[str, float]
_LEAST_WIDTH = math.log(2)
_LEAST_LOSS = 1e-3
"""Losses nearer to the floor are not told apart."""


@dataclass(frozen=True, kw_only=True)
class TaughtRanges:
    """The least and the most that a predictor was taught of each feature, for λ_run and λ_change.

    ``falls`` and ``rises`` are those of the changes of the loss themselves.
    """

    run: Mapping[str, Range]
    change: Mapping[str, Range]
    falls: Range
    rises: Range

    @classmethod
    def of(cls, runs: Sequence[RunExample], changes: Sequence[ChangeExample]) -> TaughtRanges:
        """The ranges of training examples."""
        return cls(
            run=_ranges(
                [_run_features(each.history.setting, len(each.history.losses), each.history.loss) for each in runs]
            ),
            change=_ranges([_change_features(each.history, each.to) for each in changes]),
            falls=_range(change for each in runs for change in each.changes),
            rises=_range(each.change for each in changes),
        )

    @classmethod
    def parsed(cls, data: Any) -> TaughtRanges:
        """The ranges as ``asdict`` and JSON have left them.

        Raises:
            KeyError, TypeError, ValueError: they are none.
        """
        run, change = (
            {str(name): _pair(pair) for name, pair in dict(data[part]).items()} for part in ("run", "change")
        )
        return cls(run=run, change=change, falls=_pair(data["falls"]), rises=_pair(data["rises"]))


def _pair(data: Any) -> Range:
    least, most = map(float, data)
    if not -math.inf < least <= most < math.inf:
        raise ValueError(f"a range from {least} to {most}")
    return least, most


def _ranges(rows: Sequence[Features]) -> dict[str, Range]:
    return {name: _range(row[name] for row in rows) for name in rows[0]}


def _range(values: Iterable[float]) -> Range:
    found = sorted(values)
    return found[0], found[-1]


def _run_features(setting: Setting, epoch: int, loss: float) -> Features:
    """What λ_run reads before an epoch of a setting, from 1."""
    return {**_setting_features(setting), "epoch": float(epoch), "loss": loss}


def _change_features(history: History, to: Setting) -> Features:
    """What λ_change reads; ``removed`` is the fraction of the rest."""
    removed, _ = removed_and_learnt(history, to)
    done = float(len(history.losses) - 1)
    return {**_setting_features(to), "removed": removed, "epochs before": done, "loss": history.loss}


def _setting_features(setting: Setting) -> Features:
    return {"pruning": setting.pruning, "samples": float(setting.samples), "classes": float(setting.classes)}


def _height(name: str, value: float) -> float:
    """The logarithm that a feature is compared by."""
    if name in ("pruning", "removed"):
        return -math.log(max(1 - value, 1e-9))
    return math.log1p(value) if name == "epochs before" else math.log(max(value, _LEAST_LOSS))


def _outside(name: str, value: float, taught: Range) -> float:
    """How far a value is outside of what was taught, as a multiple of its width."""
    least, most, here = (_height(name, each) for each in (*taught, value))
    width = max(most - least, _LEAST_WIDTH)
    return max(least - here, here - most, 0.0) / width


def _weight(features: Features, taught: Mapping[str, Range]) -> float:
    return min(1.0, max(_outside(name, features[name], range_) for name, range_ in taught.items()))


def _named(rows: Sequence[Features], taught: Mapping[str, Range]) -> tuple[str, ...]:
    """Each feature that is outside, at the row where it is farthest, beside what was taught."""
    found = []
    for name, (least, most) in taught.items():
        farthest = max((row[name] for row in rows), key=lambda value: _outside(name, value, (least, most)))
        if _outside(name, farthest, (least, most)) > 0:
            found.append(f"{name} {farthest:.4g} (taught: {least:.4g} to {most:.4g})")
    return tuple(found)


@dataclass(frozen=True)
class TaughtPredictor:
    """A predictor that is trusted as far as it was taught; ``ranges`` are None where nobody knows them.

    ``constants`` are those of the bounds of theory that its curves tell.
    """

    predictor: Predictor
    ranges: TaughtRanges | None
    floor: float = 0.0
    constants: BoundConstants = NO_CONSTANTS

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        """The predictor's, wider where an epoch is outside of what was taught."""
        plain = self.predictor.predict_epochs(history, epochs)
        if self.ranges is None or not epochs:
            return floored(plain, history.loss, self.floor, () if self.ranges else (UNKNOWN,))
        law = PowerLawPredictor().predict_epochs(history, epochs)
        least, most = self.ranges.falls
        rows: list[Features] = []
        expected, low, robust, steps = [], [], [], []
        loss = history.loss
        for ahead in range(epochs):
            rows.append(_run_features(history.setting, len(history.losses) + ahead, loss))
            weight = _weight(rows[-1], self.ranges.run)
            mean = _between(min(max(plain.expected[ahead], least), most), law.expected[ahead], weight)
            expected.append(max(mean, self.floor - loss))
            low.append(_between(plain.low[ahead], min(plain.low[ahead], self.floor - loss), weight))
            robust.append(_between(plain.robust[ahead], max(plain.robust[ahead], 0.0), weight))
            steps.append(_between(plain.steps_robust[ahead], max(plain.steps_robust[ahead], 0.0), weight))
            loss += expected[-1]
        wider = Forecast(
            expected=tuple(expected), low=tuple(low), robust=tuple(robust), total_robust=tuple(accumulate(steps))
        )
        return floored(wider, history.loss, self.floor, _named(rows, self.ranges.run))

    def predict_change(self, history: History, to: Setting) -> Forecast:
        """The predictor's, wider where the change is outside of what was taught."""
        plain = self.predictor.predict_change(history, to)
        if self.ranges is None:
            return floored(plain, history.loss, self.floor, (UNKNOWN,))
        law = PowerLawPredictor().predict_change(history, to)
        features = _change_features(history, to)
        weight, (least, most) = _weight(features, self.ranges.change), self.ranges.rises
        mean = _between(min(max(plain.expected[0], least), most), law.expected[0], weight)
        robust = _between(plain.robust[0], max(plain.robust[0], law.robust[0]), weight)
        low = _between(max(plain.low[0], least), min(plain.low[0], law.low[0]), weight)
        wider = Forecast(expected=(mean,), low=(low,), robust=(robust,), total_robust=(robust,))
        return floored(wider, history.loss, self.floor, _named([features], self.ranges.change))


def _between(inside: float, outside: float, weight: float) -> float:
    return inside + weight * (outside - inside)
