"""The bandwidth of a link as it was measured over time.

A row holds until the next one; after the last, which lasts as long as the one before, the trace begins again. ``up`` is
from the first named node to the second; without it, it is as ``down``. A bandwidth may be 0 for a while.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, NamedTuple, Self

from pydantic import Field, model_validator

from palmette.spec.document import Document, LocatedFault, Number, refuse

LEAST_BPS = 1.0
MOST_ROWS = 1_000_000
LEAST_ROW_S = 1e-3
"""Of rows in the mean: an iteration of an hour then sees some millions of changes, which the clock plays in seconds."""
_NEARLY = 1 - 1e-9  # sums of seconds are rounded
_CLOSE = 1e-3
Numbers = Annotated[tuple[Number, ...], Field(min_length=1, max_length=MOST_ROWS)]


class BandwidthTrace(Document):
    """From which moment on which bandwidth holds, down and up; the first moment is 0."""

    time_s: Numbers
    down_bps: Numbers
    up_bps: Numbers | None = None

    @model_validator(mode="after")
    def _is_a_course(self) -> Self:
        wrong = []
        for name, rates in (("down_bps", self.down_bps), ("up_bps", self.up_bps)):
            if rates is not None and len(rates) != len(self.time_s):
                expected = f"expected {len(self.time_s)}, one per moment"
                wrong.append(LocatedFault((name,), f"{len(rates)} values", expected))
            elif rates is not None and sum(rates) < LEAST_BPS * len(rates):
                wrong.append(LocatedFault((name,), "next to nothing", "expected at least 1 bit/s in the mean"))
        if self.time_s[0] != 0:
            wrong.append(LocatedFault(("time_s", 0), self.time_s[0], "expected 0, where the trace begins"))
        for k, (one, other) in enumerate(itertools.pairwise(self.time_s), 1):
            if other <= one:
                wrong.append(LocatedFault(("time_s", k), other, f"expected more than {one:g}, the moment before"))
                break
        if not wrong and self.length_s < LEAST_ROW_S * len(self.time_s):
            mean_s = self.length_s / len(self.time_s)
            wrong.append(LocatedFault(("time_s",), f"rows of {mean_s:.3g} s", "expected at least 1 ms in the mean"))
        if wrong:
            refuse("BandwidthTrace", wrong)
        return self

    @cached_property
    def lasts_s(self) -> tuple[float, ...]:
        """How long each row holds."""
        gaps = [other - one for one, other in itertools.pairwise(self.time_s)]
        return (*gaps, gaps[-1] if gaps else 1.0)

    @property
    def length_s(self) -> float:
        """After how long it begins again."""
        return self.time_s[-1] + self.lasts_s[-1]

    @property
    def rates_bps(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The rates up and down, row by row."""
        return self.down_bps if self.up_bps is None else self.up_bps, self.down_bps

    @cached_property
    def mean_bps(self) -> tuple[float, float]:
        """The mean over time, up and down."""
        up, down = (_weighted_mean(rates, self.lasts_s) for rates in self.rates_bps)
        return up, down

    def robust_bps(self, share: float) -> tuple[float, float]:
        """What both directions reach or exceed at the same time for this share of the time."""
        up, down = (_ranked(rates, self.lasts_s) for rates in self.rates_bps)
        low, high = share, 1.0
        if self.periods(up.held(low), down.held(low), above=True)[0] >= share * _NEARLY:
            high = low
        while high - low > _CLOSE:
            middle = (low + high) / 2
            enough = self.periods(up.held(middle), down.held(middle), above=True)[0] >= share * _NEARLY
            low, high = (low, middle) if enough else (middle, high)
        return max(LEAST_BPS, up.held(high)), max(LEAST_BPS, down.held(high))

    def at(self, moment_s: float) -> tuple[float, float]:
        """The rates at a moment, up and down."""
        row = bisect_right(self.time_s, moment_s % self.length_s) - 1
        up, down = self.rates_bps
        return up[row], down[row]

    def periods(self, up_bps: float, down_bps: float, *, above: bool) -> tuple[float, float]:
        """For which share of the time both directions are at these rates or beyond, and how long on average."""
        periods_s, going = [0.0], False
        for up, down, each_s in zip(*self.rates_bps, self.lasts_s, strict=True):
            beyond = (up >= up_bps and down >= down_bps) if above else (up <= up_bps and down <= down_bps)
            if beyond and not going:
                periods_s.append(0.0)
            periods_s[-1] += each_s if beyond else 0.0
            going = beyond
        periods = [each for each in periods_s if each]
        return sum(periods) / self.length_s, sum(periods) / len(periods) if periods else 0.0

    def changes(self, moment_s: float) -> Iterator[tuple[float, tuple[float, float]]]:
        """Each later moment at which the rates change, in seconds from ``moment_s``, and the rates from then on."""
        if self._is_constant:
            return
        moment_s %= self.length_s  # a moment after many turns would swallow the seconds from it
        turn, known, (up, down) = 0, self.at(moment_s), self.rates_bps
        row = bisect_right(self.time_s, moment_s) - 1
        while True:
            for k in range(row, len(self.time_s)):
                at_s = turn * self.length_s + self.time_s[k] - moment_s
                if at_s > 0 and (up[k], down[k]) != known:
                    known = up[k], down[k]
                    yield at_s, known
            turn, row = turn + 1, 0

    @cached_property
    def _is_constant(self) -> bool:
        return len(set(zip(*self.rates_bps, strict=True))) == 1


def _weighted_mean(rates: Sequence[float], lasts_s: Sequence[float]) -> float:
    return sum(rate * each for rate, each in zip(rates, lasts_s, strict=True)) / sum(lasts_s)


class _Ranked(NamedTuple):
    """Rates from the largest to the smallest, and for which share of the time each or a larger one holds."""

    rates_bps: list[float]
    shares: list[float]

    def held(self, share: float) -> float:
        """The largest rate that holds for at least this share of the time."""
        return self.rates_bps[min(bisect_left(self.shares, share * _NEARLY), len(self.shares) - 1)]


def _ranked(rates: Sequence[float], lasts_s: Sequence[float]) -> _Ranked:
    rows = sorted(zip(rates, lasts_s, strict=True), reverse=True)
    whole_s = sum(lasts_s)
    held_s = itertools.accumulate(each_s for _, each_s in rows)
    return _Ranked([rate for rate, _ in rows], [each_s / whole_s for each_s in held_s])
