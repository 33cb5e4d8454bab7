"""How long peers have been silent, not counting time in which this process was suspended itself (as by Ctrl-Z)."""

from __future__ import annotations

from collections.abc import Iterable


class Liveness:
    """Counts the seconds since each peer's last heartbeat, on any one clock.

    A peer is silent after ``patience_s``; a process that did not check for ``asleep_s`` was suspended.
    """

    def __init__(self, timeout_s: float, asleep_s: float) -> None:
        self._patience_s, self._asleep_s = timeout_s, asleep_s
        self._heard_s: dict[str, float] = {}
        self._looked_s: float | None = None

    def heard(self, names: Iterable[str], now_s: float) -> None:
        """Note heartbeats; a peer that has sent none yet is not watched."""
        self._heard_s.update(dict.fromkeys(names, now_s))

    def forget(self, name: str) -> None:
        """Stop watching a peer that has left."""
        self._heard_s.pop(name, None)

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
        return next((name for name, heard_s in self._heard_s.items() if now_s - heard_s > self._patience_s), None)
