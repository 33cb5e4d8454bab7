"""PACT's ideal loss–time curve, and the value of a state beside it (4): is a training ahead or behind?

The curve starts at the first loss, ends at the target at the deadline, and follows a power law in between:

    ideal(t) = floor + scale · (1 + t / unit_s)^(−1/2)        through (0, start_loss) and (deadline_s, target_loss)

with ``unit_s`` the time of a first epoch, as losses are compared epoch by epoch. Its floor may be below 0: only the
part before the deadline counts. The value of a state is logistic(ideal(t) − loss): above 1/2 it is ahead; 1 where the
target is reached in time, 0 where the deadline has passed without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXPONENT = 0.5


@dataclass(frozen=True, kw_only=True)
class IdealCurve:
    """From the first loss to the target at the deadline."""

    start_loss: float
    target_loss: float
    deadline_s: float
    unit_s: float

    def __post_init__(self) -> None:
        numbers = (self.start_loss, self.target_loss, self.deadline_s, self.unit_s)
        if not all(map(math.isfinite, numbers)) or min(self.deadline_s, self.unit_s) <= 0:
            raise ValueError(f"no curve: {numbers}")

    @classmethod
    def parsed(cls, data: Any) -> IdealCurve | None:
        """The curve in a plan's decision; None where there is none that makes sense."""
        try:
            fields = ("start_loss", "target_loss", "deadline_s", "unit_s")
            return cls(**{name: float(data[name]) for name in fields}) if isinstance(data, Mapping) else None
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    def loss(self, time_s: float) -> float:
        """The loss that is ideal at a time."""
        unit_s = min(self.unit_s, self.deadline_s)
        left, end = _decay(time_s / unit_s), _decay(self.deadline_s / unit_s)
        return self.target_loss + (self.start_loss - self.target_loss) * (left - end) / (1 - end)

    def value(self, time_s: float, loss: float) -> float:
        """The value of a state (4)."""
        if time_s <= self.deadline_s and loss <= self.target_loss:
            return 1.0
        if time_s >= self.deadline_s:
            return 0.0
        return 0.5 * (1 + math.tanh((self.loss(time_s) - loss) / 2))

    def state(self, time_s: float, loss: float) -> dict[str, float]:
        """A state beside the curve, as files and pages have it."""
        ideal = self.loss(min(time_s, self.deadline_s))
        return {"time_s": time_s, "loss": loss, "ideal_loss": ideal, "value": self.value(time_s, loss)}


def mean_fall(excess: float, done: int, more: int) -> float:
    """By how much an excess loss after so many epochs falls in each of ``more`` on average, by the power law."""
    return excess * (1 - _decay(more / (1 + done))) / more


def verdict(state: Mapping[str, float]) -> str:
    """Ahead or behind, in words."""
    ahead = state["ideal_loss"] - state["loss"]
    side = "ahead of" if ahead >= 0 else "behind"
    return f"{abs(ahead):.4g} {side} the ideal curve, value {state['value']:.2f}"


def _decay(units: float) -> float:
    return math.pow(1 + units, -EXPONENT)
