"""The clocks of hosts beside this one's: each began when its host did, so that none means anything to the others.

Every answer says what its host's clock showed when it left. The quickest of the last answers was hardly under way, so
its arrival tells the difference, to within the time that it took: a millisecond on most networks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from palmette.runtime.worker.commands import Done, Event

_ANSWERS = 200  # of which the quickest counts; clocks drift apart by less meanwhile


class HostClock:
    """One host's clock."""

    def __init__(self) -> None:
        self._behind_s: deque[float] = deque(maxlen=_ANSWERS)

    def note(self, there_s: float, here_s: float) -> None:
        """An answer left at ``there_s`` of the host's clock and arrived at ``here_s`` of this one."""
        self._behind_s.append(here_s - there_s)

    def translated(self, event: Event) -> Event:
        """An event with times of this clock."""
        if not isinstance(event, Done):
            return event
        shift_s = min(self._behind_s)
        moved = [each._replace(start_s=each.start_s + shift_s, end_s=each.end_s + shift_s) for each in event.records]
        return replace(event, records=moved)
