"""Converts the clocks of hosts to this machine's: each starts with its host, so that they cannot be compared.

Every answer carries its host's clock at the time of sending. On arrival, this clock differs from it by the offset of
the clocks plus the delay; the least difference among the last answers is off by the shortest delay only: a millisecond
on most networks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from palmette.runtime.worker.commands import Event, IterationDone

_ANSWERS = 200  # the fastest of these counts; meanwhile clocks drift by less than its delay


class HostClock:
    """One host's clock."""

    def __init__(self) -> None:
        self._behind_s: deque[float] = deque(maxlen=_ANSWERS)

    def note(self, there_s: float, here_s: float) -> None:
        """Note an answer, sent at ``there_s`` of the host's clock and received at ``here_s`` of this one."""
        self._behind_s.append(here_s - there_s)

    def translated(self, event: Event) -> Event:
        """An event with its times on this machine's clock."""
        if not isinstance(event, IterationDone):
            return event
        shift_s = min(self._behind_s)
        moved = [each._replace(start_s=each.start_s + shift_s, end_s=each.end_s + shift_s) for each in event.records]
        return replace(event, records=moved, began_s=event.began_s + shift_s)
