"""Samples of counters and watts to fit a power model on."""

from __future__ import annotations

from collections.abc import Callable

from palmette.measure.counters import read_counters
from palmette.measure.meters.base import Meter


def sample_power(
    meter: Meter, seconds: float, every_s: float, sleep: Callable[[float], None]
) -> list[dict[str, float | str]]:
    """A row for each interval of ``every_s``: the counters at its end, its mean watts, and the meter.

    Raises:
        RunError: the meter has no more readings.
    """
    read_counters()  # utilisation is counted from here
    rows: list[dict[str, float | str]] = []
    for _ in range(max(1, round(seconds / every_s))):
        meter.begin()
        sleep(every_s)
        reading = meter.end()
        rows.append({**read_counters(), "power_w": reading.watts, "meter": reading.source})
    return rows
