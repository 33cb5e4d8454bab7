"""Files of a run at a hub, copied to a folder here as they grow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from palmette.errors import Fault, InputError, RunError
from palmette.report.live_run import LiveRun

if TYPE_CHECKING:
    from palmette.cli.run_places import RunPlace
    from palmette.runtime.engines.hub.requests import RunFile

Part = Callable[[int], tuple[bytes, int]]
"""A part of a file from an offset on, and the length of the file."""

_FILES: tuple[RunFile, ...] = ("run.json", "metrics.jsonl", "trace.jsonl")


class RunMirror:
    """The record, the metrics and the trace of a run, in a folder of the run's name."""

    def __init__(self, place: RunPlace, run: str, into: Path) -> None:
        self._place, self._run, self.folder = place, run, into / run
        self.folder.mkdir()

    def update(self) -> None:
        """Copy what is new; the record first, since a run that has ended wrote its other lines before."""
        (self.folder / "run.json").unlink(missing_ok=True)
        for name in _FILES:
            copy_rest(partial(self._place.read, self._run, name), self.folder / name)


class MirroredRun(LiveRun):
    """A run at a hub in progress; while the hub cannot be reached, what was known before."""

    def __init__(self, mirror: RunMirror) -> None:
        """Raises InputError where there is no run or no record of it yet, RunError where the hub cannot be reached."""
        mirror.update()
        if not (mirror.folder / "run.json").exists():
            raise InputError(
                Fault("RUN", mirror.folder.name, "it is being started; expected one that has begun to train")
            )
        self._mirror = mirror
        super().__init__(mirror.folder)

    def update(self) -> None:
        """Copy what is new, and read it."""
        with suppress(RunError):
            self._mirror.update()
        super().update()


def copy_rest(part: Part, file: Path) -> int:
    """Copy what a file here lacks, all of it where that has become shorter; returns its length, 0 if there is none.

    A run that is resumed may write a file again that was longer before.
    """
    known = file.stat().st_size if file.exists() else 0
    data, size = part(known)
    if size < known:
        file.unlink()
        known, (data, size) = 0, part(0)
    if size == 0:
        return 0
    with file.open("ab") as opened:
        while data:
            opened.write(data)
            known += len(data)
            data = part(known)[0] if known < size else b""
    return known
