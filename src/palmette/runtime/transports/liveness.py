"""Who has been silent for long; whoever stood still itself meanwhile (Ctrl-Z, an overloaded machine) blames nobody."""

from __future__ import annotations

from collections.abc import Iterable


class Silence:
    """Counts the seconds since each was heard from. Times are those of one clock, whichever it is.

    More than ``patience_s`` is silence; who has not looked for ``asleep_s`` was asleep.
    """

    def __init__(self, patience_s: float, asleep_s: float) -> None:
        self._patience_s, self._asleep_s = patience_s, asleep_s
        self._heard_s: dict[str, float] = {}
        self._looked_s: float | None = None

    def heard(self, names: Iterable[str], now_s: float) -> None:
        """Note signs of life; whoever has given none yet is not waited for."""
        self._heard_s.update(dict.fromkeys(names, now_s))

    def forget(self, name: str) -> None:
        """Wait no more for somebody who has left."""
        self._heard_s.pop(name, None)

    def of_s(self, name: str, now_s: float) -> float:
        """How long somebody has been silent; for ever, if never heard."""
        return now_s - self._heard_s.get(name, float("-inf"))

    def speaks(self, name: str) -> bool:
        """Whether somebody was ever heard from."""
        return name in self._heard_s

    def first(self, now_s: float) -> str | None:
        """Somebody who has been silent for too long; to be asked often."""
        gap_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        self._looked_s = now_s
        if gap_s > self._asleep_s:
            self._heard_s = {name: heard_s + gap_s for name, heard_s in self._heard_s.items()}
        return next((name for name, heard_s in self._heard_s.items() if now_s - heard_s > self._patience_s), None)
