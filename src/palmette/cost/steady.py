"""An iteration in the steady state, from a few that were played in a row.

Where samples travel ahead, the time between the ends of two iterations settles after a few. Where samples come late,
faster and slower iterations may take turns: more are played, for a mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palmette.cost.clock import Timing
from palmette.cost.prepared import MARKS
from palmette.cost.steps import Iteration

UNTIL_STEADY = 3
"""Iterations that are played where samples travel ahead."""
WITH_TURNS = 9
"""Iterations that are played where these may not be alike."""
MEAN_OF = 6
"""The last of them, which are a mean: whole turns, be they of two or of three iterations."""
_SAME = 1e-9
"""Moments that differ by no more than this part of them are the same."""


class Steady(NamedTuple):
    """An iteration in the steady state: when its operations start and end, from the first; seconds from end to end.

    ``ends_s`` are the ends of the first iterations, of which the very first waits for its own samples.
    """

    made: Iteration
    timing: Timing
    iteration_s: float
    ends_s: tuple[float, ...]

    def first_s(self, many: int = 1) -> float:
        """Seconds of the first iterations, so many together."""
        turn = min(MEAN_OF, len(self.ends_s))
        later = max(0, -(-(many - len(self.ends_s)) // turn)) * turn
        return self.ends_s[many - later - 1] + later * self.iteration_s


def marks(made: Iteration, played: Timing) -> tuple[list[float], list[float]]:
    """When the samples of each of several iterations have been sent, and when each is done."""
    many = len(made.steps) + MARKS
    return played.end_s[many - MARKS :: many], played.end_s[many - 1 :: many]


def may_differ(sent_s: Sequence[float], done_s: Sequence[float], carried_s: float) -> bool:
    """Whether iterations may go on to differ: the last two did, or samples come late, or will, over no full link.

    ``carried_s`` is how long an iteration keeps the busiest link.
    """
    same_s = _SAME * done_s[-1]
    last_s, before_s = done_s[-1] - done_s[-2], done_s[-2] - done_s[-3]
    waited = sent_s[-1] > done_s[-2] + same_s
    late = carried_s > last_s + same_s or (waited and carried_s < last_s - same_s)
    return late or abs(last_s - before_s) > same_s
