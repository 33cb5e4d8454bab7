"""A meter that replays a log: a CSV with times and watts, as smart plugs and bench meters export it.

The first interval begins with the log, each further one where the last has ended: as if the meter had been started
with the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic

import numpy as np

from palmette.errors import Fault, InputError, RunError
from palmette.measure.csv_table import Row, read_csv
from palmette.measure.meters.base import EnergyReading

TIMES = ("time_s", "time", "timestamp", "datetime", "date")
WATTS = ("power_w", "power (w)", "power", "watts", "w")


class ReplayMeter:
    """Replays watts at seconds since the first one."""

    def __init__(
        self, seconds: Sequence[float], watts: Sequence[float], name: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self._seconds, self._watts = np.array(seconds), np.array(watts)
        self._clock, self._at_s, self._began_s = clock, 0.0, math.nan
        self.source = f"measured: replayed from {name}"

    def begin(self) -> None:
        """Continue where the last interval ended."""
        self._began_s = self._clock()

    def end(self) -> EnergyReading:
        """The joules of as much of the log as the time that has passed.

        Raises:
            RunError: the log is shorter.
        """
        passed_s = self._clock() - self._began_s
        until_s = self._at_s + passed_s
        if until_s > self._seconds[-1]:
            raise RunError(f"{self.source}: the log ends after {self._seconds[-1]:g} s; {until_s:.1f} s were needed")
        joules = self._joules(until_s) - self._joules(self._at_s)
        self._at_s = until_s
        return EnergyReading(passed_s, joules, self.source)

    def _joules(self, until_s: float) -> float:
        """The integral from the log's beginning, by trapezoids."""
        inside = self._seconds < until_s
        at = np.append(self._seconds[inside], until_s)
        watts = np.append(self._watts[inside], np.interp(until_s, self._seconds, self._watts))
        return float(np.trapezoid(watts, at))


def load_replay(path: str) -> ReplayMeter:
    """The meter that replays a file.

    Raises:
        InputError: it cannot be read, lacks a column, or its times do not rise; names the line.
    """
    header, rows = read_csv(path)
    time_at, watts_at = (_column(header, known, path) for known in (TIMES, WATTS))
    seconds, watts = [], []
    for row in rows:
        seconds.append(_number(row, time_at, path, _moment))
        watts.append(_number(row, watts_at, path, float))
        if watts[-1] < 0 or (len(seconds) > 1 and seconds[-1] <= seconds[-2]):
            expected = "expected watts of 0 or more, and times that rise"
            raise InputError(Fault(f"line {row.line}", ",".join(row.cells), expected, path))
    if len(seconds) < 2:
        raise InputError(Fault("", f"{len(seconds)} samples", "expected at least 2", path))
    return ReplayMeter([each - seconds[0] for each in seconds], watts, path)


def _column(header: list[str], known: tuple[str, ...], path: str) -> int:
    for name in known:
        if name in header:
            return header.index(name)
    raise InputError(Fault("header", ",".join(header) or "nothing", f"expected a column {known[0]}", path))


def _number(row: Row, at: int, path: str, read: Callable[[str], float]) -> float:
    text = row.cells[at] if at < len(row.cells) else ""
    try:
        value = read(text)
    except (ValueError, OverflowError, OSError):  # the last two for years out of range
        value = math.nan
    if not math.isfinite(value):
        raise InputError(Fault(f"line {row.line}", text or "nothing", "expected a number", path))
    return value


def _moment(text: str) -> float:
    """Seconds: a number as it is, or a date and time."""
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()
