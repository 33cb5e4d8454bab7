"""Increases the dilation during a run if this machine cannot keep up with the emulated nodes.

The dilation is chosen from how long calls take before the run. If they take longer during the run, because the machine
has become busy or because all workers compute at once, iterations end later than they were due. Where that is more than
a small part of an iteration, the dilation is increased and iterations are measured again; a few times at most, and
never if the user has set the dilation.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from palmette.runtime.engines.crew import Crew
from palmette.runtime.engines.testbed import Testbed
from palmette.runtime.record.operations import MOST_LATE_S, OperationRecord
from palmette.runtime.sync.base import PhaseLog
from palmette.runtime.worker.commands import SetPace

WINDOW = 2
MOST_TIMES = 3
LATE = 0.012
"""The fraction of an iteration by which it may end late."""
AIM = LATE / 2
LEAST, MOST = 1.4, 4.0


class DilationControl:
    """Watches how late the iterations of a segment end; increases the dilation between two of them if needed."""

    def __init__(self, crew: Crew, testbed: Testbed, log: PhaseLog) -> None:
        self._crew, self._ground, self._log = crew, testbed, log
        self._late: deque[float] = deque(maxlen=WINDOW)
        self._seen = self._times = 0

    def note(self, records: Mapping[str, Sequence[OperationRecord]]) -> None:
        """Record what the nodes did in an iteration, or in a step of a tree."""
        self._seen += 1
        if self._ground.emulates and self._seen > 1:  # the first includes warm-up
            self._late.append(lateness(record for lines in records.values() for record in lines))

    def adjusted(self, at: int) -> bool:
        """Increase the dilation before iteration ``at`` if needed; returns whether it did. All nodes must be idle."""
        if len(self._late) < WINDOW or self._times >= MOST_TIMES:
            return False
        by = dilation_factor(self._late)
        paces = self._ground.increase_dilation(by) if by > 1 else None
        if paces is None:
            return False
        for node, programs in paces.items():
            for program, pace in programs.items():
                self._crew.send(node, SetPace(program, pace))
        self._log.dilation_increased(at, by)
        self._late.clear()
        self._times += 1
        return True


def lateness(records: Iterable[OperationRecord]) -> float:
    """How late the last of these operations ended, plus delays too long to catch up, as a fraction of their span."""
    known = list(records)
    end_s, start_s = max(each.end_s for each in known), min(each.start_s for each in known if each.op != "receive")
    last_s = max(each.late_s for each in known if each.end_s == end_s)
    lost_s = sum(max(0.0, each.late_s - MOST_LATE_S) for each in known)
    return (last_s + lost_s) / max(end_s - start_s, 1e-9)


def dilation_factor(late: Iterable[float]) -> float:
    """The factor by which to increase the dilation when iterations are so late; 1 if they are not."""
    typical = statistics.median_low(late)  # a single one may be chance
    return min(MOST, max(LEAST, typical / AIM)) if typical > LATE else 1.0
