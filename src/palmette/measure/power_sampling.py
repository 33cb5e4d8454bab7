"""Samples of counters and watts, side by side, for a power model to be fitted on."""

from __future__ import annotations

from collections.abc import Callable

from palmette.measure.counters import counters
from palmette.measure.meters.base import Meter


def samples(
    meter: Meter, seconds: float, every_s: float, sleep: Callable[[float], None]
) -> list[dict[str, float | str]]:
    """A row for each stretch of ``every_s``: what the counters say at its end, its mean watts, and the meter.

    Raises:
        RunError: the meter has nothing more to say.
    """
    counters()  # utilisation is counted from here
    rows: list[dict[str, float | str]] = []
    for _ in range(max(1, round(seconds / every_s))):
        meter.begin()
        sleep(every_s)
        metered = meter.end()
        rows.append({**counters(), "power_w": metered.watts, "meter": metered.source})
    return rows
