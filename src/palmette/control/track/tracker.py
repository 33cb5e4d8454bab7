"""What a tracker is: it takes a run's parameters when it is opened, then numbers, and is closed.

A new tracker is one file with a function that opens it, and a row in ``registry``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

FILE = "trackers.json"


class Tracker(Protocol):
    """An experiment log that is open."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write numbers of an iteration."""

    def close(self, ended: str) -> None:
        """The run is over: ``"done"``, ``"stopped"``, or why it failed."""


@dataclass(frozen=True)
class TrackedRun:
    """The run that a tracker gets to know: its folder, its parameters, and after which iteration it continues, if so.

    A tracker that calls its own run by an id keeps that in the folder, to continue the same one.
    """

    folder: Path
    parameters: Mapping[str, str]
    resumed_at: int | None = None

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.folder.resolve().name

    def known_id(self, tracker: str) -> str | None:
        """The tracker's id of this run, where it continues one."""
        return self._ids().get(tracker) if self.resumed_at is not None else None

    def keep_id(self, tracker: str, identity: str) -> None:
        """Keep the tracker's id of this run."""
        ids = self._ids() if self.resumed_at is not None else {}
        (self.folder / FILE).write_text(json.dumps(ids | {tracker: identity}, indent=1) + "\n", encoding="utf-8")

    def _ids(self) -> dict[str, str]:
        file = self.folder / FILE
        found: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return found


OpenTracker = Callable[[str, TrackedRun], Tracker]
"""From what stands behind the tracker's name and a colon, empty if nothing does, and the run."""
