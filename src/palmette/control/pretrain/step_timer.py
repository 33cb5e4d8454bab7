"""When the warm-up of a pre-training is over, and how long its steps took.

    ▐ warm-up ▐ timed ▐ counted ▐

Without ``until_stable`` the warm-up has the given length. With it, it ends as soon as the last windows of steps agree
within 2%, after at most ten times the given length.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from palmette.errors import ArgumentFault, InputError

WINDOW, WINDOWS = 20, 3
AGREE = 0.02
MOST_WARMUP = 10


@dataclass(frozen=True, kw_only=True)
class StepCounts:
    """Numbers of steps: to warm up, to time, and to read counters in.

    Raises:
        InputError: one is too small.
    """

    warmup: int = 300
    timed: int = 100
    counted: int = 100
    until_stable: bool = False

    def __post_init__(self) -> None:
        least = {"warmup": 0, "timed": 1, "counted": 0}
        faults = [
            ArgumentFault(name, getattr(self, name), f"expected at least {bound}")
            for name, bound in least.items()
            if getattr(self, name) < bound
        ]
        if faults:
            raise InputError(faults)

    @property
    def most(self) -> int:
        """The largest number of steps."""
        return self.warmup * (MOST_WARMUP if self.until_stable else 1) + self.timed + self.counted


@dataclass
class StepTimer:
    """Records the seconds of each step."""

    counts: StepCounts
    steps_s: list[float] = field(default_factory=list)
    warm_at: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.warm_at = None if self.counts.warmup else 0

    def step(self, took_s: float) -> None:
        """A step is done."""
        self.steps_s.append(took_s)
        if self.warm_at is None and self._is_warm():
            self.warm_at = len(self.steps_s)

    def _is_warm(self) -> bool:
        taken, counts = len(self.steps_s), self.counts
        if taken >= counts.most - counts.timed - counts.counted:
            return True
        return counts.until_stable and taken % WINDOW == 0 and stable(self.steps_s)

    @property
    def counting(self) -> bool:
        """Whether the steps are those during which counters are read."""
        return self.warm_at is not None and len(self.steps_s) >= self.warm_at + self.counts.timed

    @property
    def done(self) -> bool:
        """Whether all steps have been taken."""
        return self.warm_at is not None and len(self.steps_s) >= self.warm_at + self.counts.timed + self.counts.counted

    @property
    def taken(self) -> int:
        """Steps so far."""
        return len(self.steps_s)

    @property
    def step_s(self) -> float:
        """The typical step after the warm-up: the median, which tolerates a machine that was busy."""
        timed = self.steps_s[self.warm_at or 0 :][: self.counts.timed]
        return statistics.median(timed)


def stable(steps_s: list[float]) -> bool:
    """Whether the last windows agree."""
    if len(steps_s) < WINDOW * WINDOWS:
        return False
    last = steps_s[-WINDOW * WINDOWS :]
    means = [statistics.mean(last[k : k + WINDOW]) for k in range(0, len(last), WINDOW)]
    return max(means) - min(means) <= AGREE * statistics.mean(means)
