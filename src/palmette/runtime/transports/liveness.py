"""How long peers have been silent, not counting time in which this process was suspended itself (as by Ctrl-Z).

On an overloaded machine heartbeats come late, and this process looks late itself. So the limit grows with the delays
that were seen lately: it is a multiple of the longest gap between two heartbeats of a peer, or between two looks, where
that is more than the timeout. On a quiet machine it is not, and the timeout counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

_GAPS, _LOOKS = 2.5, 3.0
"""How many of a peer's longest gaps, and of this process's between two looks, a peer may be silent."""
_LATELY_S = 30.0
_MOST_TIMEOUTS = 5.0


class Liveness:
    """Counts the seconds since each peer's last heartbeat, on any one clock.

    A peer is silent after ``timeout_s``, or longer where delays were seen lately; a process that did not check for
    ``asleep_s`` was suspended.
    """

    def __init__(self, timeout_s: float, asleep_s: float) -> None:
        self._timeout_s, self._asleep_s = timeout_s, asleep_s
        self._heard_s: dict[str, float] = {}
        self._gaps: dict[str, _Longest] = {}
        self._looks = _Longest()
        self._looked_s: float | None = None

    def heard(self, names: Iterable[str], now_s: float) -> None:
        """Note heartbeats; a peer that has sent none yet is not watched."""
        was_asleep = self._looked_s is not None and now_s - self._looked_s > self._asleep_s
        for name in names:
            if name in self._heard_s and not was_asleep:
                self._gaps.setdefault(name, _Longest()).note(now_s - self._heard_s[name], now_s)
            self._heard_s[name] = now_s

    def forget(self, name: str) -> None:
        """Stop watching a peer that has left."""
        self._heard_s.pop(name, None)
        self._gaps.pop(name, None)

    def silent_s(self, name: str, now_s: float) -> float:
        """How long a peer has been silent; infinite if it has sent no heartbeat yet."""
        return now_s - self._heard_s.get(name, float("-inf"))

    def is_known(self, name: str) -> bool:
        """Whether a peer has sent a heartbeat yet."""
        return name in self._heard_s

    def first_silent(self, now_s: float) -> str | None:
        """The first peer that has been silent too long, if any; to be called often."""
        gap_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        self._looked_s = now_s
        if gap_s > self._asleep_s:
            self._heard_s = {name: heard_s + gap_s for name, heard_s in self._heard_s.items()}
        else:
            self._looks.note(gap_s, now_s)
        heard = list(self._heard_s.items())
        return next((name for name, heard_s in heard if now_s - heard_s > self._limit_s(name, now_s)), None)

    def _limit_s(self, name: str, now_s: float) -> float:
        late_s = _LOOKS * self._looks.seconds(now_s)
        if name in self._gaps:
            late_s = max(late_s, _GAPS * self._gaps[name].seconds(now_s))
        return min(max(self._timeout_s, late_s), _MOST_TIMEOUTS * self._timeout_s)


class _Longest:
    """The longest of some gaps, each of which counts less the longer ago it was."""

    def __init__(self) -> None:
        self._gap_s = self._noted_s = 0.0

    def note(self, gap_s: float, now_s: float) -> None:
        self._gap_s, self._noted_s = max(gap_s, self.seconds(now_s)), now_s

    def seconds(self, now_s: float) -> float:
        return self._gap_s * math.exp((self._noted_s - now_s) / _LATELY_S)
