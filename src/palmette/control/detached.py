"""Runs without a terminal on this machine: where they are, and which process each is.

``$XDG_STATE_HOME/palmette/runs``, or ``~/.local/state/palmette/runs``, has a file for each: the run's folder, its
process, and when that began, by which a later process of the same number is told apart.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from palmette.control.run.listing import entry_of
from palmette.spec.files import make_folder, write_text
from palmette.spec.run_entry import RunEntry


@dataclass(frozen=True)
class DetachedRun:
    """A run of this machine that has no terminal; ``told_to_stop``: by its user, whether it could write that down."""

    folder: str
    process: int
    began_s: float
    since: str
    told_to_stop: bool = False

    @property
    def run(self) -> str:
        """Its name: the same for the same folder."""
        return hashlib.sha256(self.folder.encode()).hexdigest()[:8]

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return _began_s(self.process) == self.began_s

    def entry(self) -> RunEntry:
        """It as an entry of a list."""
        folder, told = Path(self.folder), self.told_to_stop
        return entry_of(self.run, folder, alive=self.alive, since=self.since, told_to_stop=told)

    def stop(self) -> None:
        """Ask its process to stop.

        Raises:
            PermissionError: it is another user's.
        """
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGTERM)
        _remember(replace(self, told_to_stop=True))


def remember_run(folder: Path, process: int) -> DetachedRun:
    """Remember the run of a process that was just started.

    Raises:
        InputError: it cannot be written down.
    """
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    made = DetachedRun(str(folder.absolute()), process, _began_s(process) or 0.0, now)
    make_folder(_state_folder())
    _remember(made)
    return made


def _remember(run: DetachedRun) -> None:
    write_text(_state_folder() / f"{run.run}.json", json.dumps(asdict(run)) + "\n")


def detached_runs() -> list[DetachedRun]:
    """The detached runs of this machine, the latest last; those whose folders are gone are forgotten."""
    return sorted(_remembered(), key=lambda each: each.since)


def _remembered() -> Iterator[DetachedRun]:
    for file in _state_folder().glob("*.json"):
        try:
            found = DetachedRun(**json.loads(file.read_bytes()))
        except (OSError, ValueError, TypeError):
            continue
        if Path(found.folder).is_dir():
            yield found
        else:
            with suppress(OSError):
                file.unlink()


def _state_folder() -> Path:
    asked = os.environ.get("XDG_STATE_HOME")
    return (Path(asked) if asked else Path.home() / ".local" / "state") / "palmette" / "runs"


def _began_s(process: int) -> float | None:
    """When a process began; None where there is none, or only what is left of one."""
    import psutil

    try:
        found = psutil.Process(process)
        return None if found.status() == psutil.STATUS_ZOMBIE else found.create_time()
    except (psutil.Error, ValueError):
        return None
