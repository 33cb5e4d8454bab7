"""A run followed while it goes on: its files are read as they grow, and what each node is doing is worked out."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from palmette.errors import InputError
from palmette.report.entry import Entry, read_entry
from palmette.report.plan_view import Record, plan_view, prices_of
from palmette.report.run_files import Done, Metric, done, metric
from palmette.report.run_view import Spending, view_of

CALLS = ("forward", "backward", "update")


class Tail:
    """The whole lines that were added to a file since they were last asked for."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._file = path, 0, 0

    def replaced(self) -> bool:
        """Whether the file is another one or shorter than before: a run that was resumed wrote it anew."""
        try:
            now = self._path.stat()
        except OSError:
            return self._offset > 0
        return self._offset > 0 and (now.st_ino != self._file or now.st_size < self._offset)

    def lines(self) -> list[str]:
        """New lines that are whole; none while there is no file."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
                self._file = self._path.stat().st_ino
        except OSError:
            return []
        self._offset += len(whole) + len(newline)
        return whole.decode("utf-8", errors="replace").splitlines()


class Follower:
    """A run's view, up to date whenever it is asked for."""

    def __init__(self, folder: Path) -> None:
        """Raises InputError where the folder holds no run."""
        self.folder = folder
        self.entry: Entry = read_entry(folder)
        self._plan = plan_view(self.entry)
        self._begin()

    def _begin(self) -> None:
        self._metrics, self._trace = Tail(self.folder / "metrics.jsonl"), Tail(self.folder / "trace.jsonl")
        self._spent = Spending(self.entry, prices_of(self.entry))
        self._lines: list[Metric] = []
        self._last: list[Done] = []
        self._heard_s = time.monotonic()

    def advance(self) -> None:
        """Read what is new; a line that cannot be read is passed over."""
        with suppress(InputError):  # should it be in the making, what was known before still holds
            self.entry = read_entry(self.folder)  # first: a run that has ended has written all of its lines before
        if self._metrics.replaced() or self._trace.replaced():
            self._begin()
        for text in self._trace.lines():
            with suppress(InputError):
                self._add(done(text))
        self._spent.close()
        for text in self._metrics.lines():
            with suppress(InputError):
                self._lines.append(metric(text))
                self._heard_s = time.monotonic()

    def _add(self, found: Done) -> None:
        if self._last and self._last[0].iteration != found.iteration:
            self._last = []
        self._last.append(found)
        self._spent.add(found)

    def view(self) -> Record:
        """What the live page needs to know."""
        self.advance()
        shown = self._last[0].iteration if self._last else None
        run = view_of(self.entry, self._spent, self._lines, shown, self._last)
        return {"live": self._live(), "entries": [self._plan | {"run": run}], "front": None}

    def _live(self) -> Record:
        age_s = time.monotonic() - self._heard_s
        losses = [line.loss for line in self._lines if line.accuracy is None]
        phases = self.entry.plan.phases
        names = dict.fromkeys(name for phase in phases for name in phase.nodes())
        return {
            "lost": False,
            "age_s": age_s,
            "loss": losses[-1] if losses else None,
            "nodes": {name: self._node(name, age_s / self._dilation()) for name in names},
        }

    def _dilation(self) -> float:
        """How many real seconds one of the emulated clock takes; a run writes it down only when it ends."""
        walls = {line.iteration: line.wall_s for line in self._lines if line.wall_s is not None}
        for number in reversed(list(self._spent.spans)):
            end_s = self._spent.spans[number][1]
            if number in walls and end_s > 0:
                return max(1.0, walls[number] / end_s)
        return 1.0

    def _node(self, name: str, elapsed_s: float) -> Record:
        """What a node did last, what it should be doing now, and how much of the last iteration it computed."""
        own = [each for each in self._last if each.node == name]
        expected = [
            f"{op} of {instance}"
            for node, instance, op, start_s, end_s, _ in self._plan["timeline"] or ()
            if node == name and start_s <= elapsed_s < end_s
        ]
        last = max(own, key=lambda each: each.end_s, default=None)
        return {
            "now": ", ".join(dict.fromkeys(expected)) or None,
            "last": None if last is None else f"{last.op} of {last.instance}",
            "share": self._share(own),
        }

    def _share(self, own: list[Done]) -> float | None:
        if not self._last:
            return None
        lasted_s = max(each.end_s for each in self._last) - min(each.start_s for each in self._last)
        computed_s = sum(each.end_s - each.start_s for each in own if each.op in CALLS)
        return min(1.0, computed_s / lasted_s) if lasted_s > 0 else None
