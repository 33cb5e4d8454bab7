"""How long a run stands still for a change of plan, measured where there has been one.

    ──iteration──┤ stop, checkpoint, start of workers, calibration ├──iteration──
                 └──────────────── the pause ──────────────────────┘

The start of a run is one, too, but takes longer than others: it only counts where it took less than is expected.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class PauseMeter:
    """Hears of every iteration of a run; ``pause_s`` is the last pause, in emulated seconds, or what is expected."""

    def __init__(self, expected_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._heard_s, self._stands = now, now(), True
        self.pause_s, self._most_s = expected_s, expected_s

    def stop(self) -> None:
        """The iterations to come are those of another plan."""
        self._stands = True

    def hear(self, operations: Sequence[Mapping[str, Any]], dilation: float) -> None:
        """An iteration has ended now; emulated time is slower by the dilation."""
        now_s = self._now()
        if self._stands and operations:
            start_s = min(float(line["start_s"]) for line in operations)
            took_s = max(float(line["end_s"]) for line in operations) - start_s
            self.pause_s = min(self._most_s, max(0.0, (now_s - self._heard_s) / dilation - took_s))
            self._stands, self._most_s = False, math.inf
        self._heard_s = now_s
