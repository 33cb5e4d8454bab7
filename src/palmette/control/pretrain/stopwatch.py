"""When the warm-up of a pre-training is over, and what its steps took.

    ▐ warm-up ▐ timed ▐ counted ▐

Without ``until_stable`` the warm-up is as long as it was asked for. With it, it ends as soon as the last windows of
steps agree within 2%, and lasts at most ten times as long as it was asked for.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

WINDOW, WINDOWS = 20, 3
AGREE = 0.02
PATIENCE = 10


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Steps of warming up, of timing, and of counting."""

    warmup: int = 300
    timed: int = 100
    counted: int = 100
    until_stable: bool = False

    @property
    def most(self) -> int:
        """Steps at most."""
        return self.warmup * (PATIENCE if self.until_stable else 1) + self.timed + self.counted


@dataclass
class Stopwatch:
    """Takes down the seconds of each step."""

    lengths: Lengths
    steps_s: list[float] = field(default_factory=list)
    warm_at: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.warm_at = None if self.lengths.warmup else 0

    def step(self, took_s: float) -> None:
        """A step is done."""
        self.steps_s.append(took_s)
        if self.warm_at is None and self._is_warm():
            self.warm_at = len(self.steps_s)

    def _is_warm(self) -> bool:
        many, lengths = len(self.steps_s), self.lengths
        if many >= lengths.most - lengths.timed - lengths.counted:
            return True
        return lengths.until_stable and many % WINDOW == 0 and stable(self.steps_s)

    @property
    def counting(self) -> bool:
        """Whether the steps are those during which counters are read."""
        return self.warm_at is not None and len(self.steps_s) >= self.warm_at + self.lengths.timed

    @property
    def done(self) -> bool:
        """Whether all steps have been taken."""
        return (
            self.warm_at is not None and len(self.steps_s) >= self.warm_at + self.lengths.timed + self.lengths.counted
        )

    @property
    def taken(self) -> int:
        """Steps so far."""
        return len(self.steps_s)

    @property
    def step_s(self) -> float:
        """The typical step after the warm-up: the median, which forgives a machine that was busy otherwise."""
        timed = self.steps_s[self.warm_at or 0 :][: self.lengths.timed]
        return statistics.median(timed)


def stable(steps_s: list[float]) -> bool:
    """Whether the last windows agree."""
    if len(steps_s) < WINDOW * WINDOWS:
        return False
    last = steps_s[-WINDOW * WINDOWS :]
    means = [statistics.mean(last[k : k + WINDOW]) for k in range(0, len(last), WINDOW)]
    return max(means) - min(means) <= AGREE * statistics.mean(means)
