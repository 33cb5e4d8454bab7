"""Whether this machine keeps up with the emulated one, found out while a run goes on.

The dilation is chosen from how long calls take before the run. When they take longer in the run, because the machine
has become busy or because all workers compute at once, iterations end later than they were due. Where that is more than
a little of an iteration, time is stretched further and what iterations take is measured anew; a few times at most, and
never where the user has given the dilation.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from palmette.runtime.engines.crew import Crew
from palmette.runtime.engines.testbed import Ground
from palmette.runtime.record.operations import Record
from palmette.runtime.sync.base import PhaseLog
from palmette.runtime.worker.commands import SetPace
from palmette.runtime.worker.executor import MOST_LATE_S

WINDOW = 2
MOST_TIMES = 3
LATE = 0.012
"""The part of an iteration that it may end later than it was due."""
AIM = LATE / 2
LEAST, MOST = 1.4, 4.0


class DilationControl:
    """Watches how late the iterations of a segment end; between two of them, widens the dilation where it has to."""

    def __init__(self, crew: Crew, ground: Ground, log: PhaseLog) -> None:
        self._crew, self._ground, self._log = crew, ground, log
        self._late: deque[float] = deque(maxlen=WINDOW)
        self._seen = self._times = 0

    def note(self, records: Mapping[str, Sequence[Record]]) -> None:
        """Take down what the nodes did in an iteration, or in a step of a tree."""
        self._seen += 1
        if self._ground.emulates and self._seen > 1:  # in the first, much is done for the first time
            self._late.append(lateness(record for lines in records.values() for record in lines))

    def widened(self, at: int) -> bool:
        """Widen the dilation before iteration ``at`` if need be; all nodes have to be idle."""
        if len(self._late) < WINDOW or self._times >= MOST_TIMES:
            return False
        by = factor(self._late)
        paces = self._ground.widen(by) if by > 1 else None
        if paces is None:
            return False
        for node, programs in paces.items():
            for program, pace in programs.items():
                self._crew.send(node, SetPace(program, pace))
        self._log.stretched(at, by)
        self._late.clear()
        self._times += 1
        return True


def lateness(records: Iterable[Record]) -> float:
    """How much later than due the last of some operations ended, and what was too late to be made up, as a part."""
    known = list(records)
    end_s, start_s = max(each.end_s for each in known), min(each.start_s for each in known if each.op != "receive")
    last_s = max(each.late_s for each in known if each.end_s == end_s)
    lost_s = sum(max(0.0, each.late_s - MOST_LATE_S) for each in known)
    return (last_s + lost_s) / max(end_s - start_s, 1e-9)


def factor(late: Iterable[float]) -> float:
    """By how much to widen the dilation when iterations were so late; 1 where they were not."""
    typical = statistics.median_low(late)  # once is chance
    return min(MOST, max(LEAST, typical / AIM)) if typical > LATE else 1.0
