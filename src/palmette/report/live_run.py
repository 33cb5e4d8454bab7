"""A run in progress: reads its files as they grow, and says what each node is doing."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from palmette.errors import InputError
from palmette.report.entry import ReportEntry, read_entry
from palmette.report.plan_view import JsonObject, evaluator_of, plan_view
from palmette.report.run_files import MetricsRow, TraceRow, TraceSum, parse_metrics_row, parse_trace_row
from palmette.report.run_view import TraceTotals, build_run_view

CALLS = ("forward", "backward", "update")


class FileTail:
    """The complete lines that were added to a file since the last call."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._file = path, 0, 0

    def replaced(self) -> bool:
        """Whether the file was replaced or has become shorter: a resumed run writes it again."""
        try:
            now = self._path.stat()
        except OSError:
            return self._offset > 0
        return self._offset > 0 and (now.st_ino != self._file or now.st_size < self._offset)

    def lines(self) -> list[str]:
        """New complete lines; none while there is no file."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
                self._file = self._path.stat().st_ino
        except OSError:
            return []
        self._offset += len(whole) + len(newline)
        return whole.decode("utf-8", errors="replace").splitlines()


class LiveRun:
    """The view of a run in progress, updated at every call."""

    def __init__(self, folder: Path) -> None:
        """Raises InputError where the folder holds no run."""
        self.folder = folder
        self.entry: ReportEntry = read_entry(folder)
        self._plan = plan_view(self.entry)
        self._reset()

    def _reset(self) -> None:
        self._metrics, self._trace = FileTail(self.folder / "metrics.jsonl"), FileTail(self.folder / "trace.jsonl")
        self._totals = TraceTotals(self.entry, evaluator_of(self.entry))
        self._rows: list[MetricsRow] = []
        self._last: list[TraceRow] = []
        self._updated_s = time.monotonic()

    def update(self) -> None:
        """Read what is new; a line that cannot be read is skipped."""
        with suppress(InputError):  # it may be half written: what was known before still holds
            self.entry = read_entry(self.folder)  # first: a run that has ended wrote all its lines before
        if self._metrics.replaced() or self._trace.replaced():
            self._reset()
        for text in self._trace.lines():
            with suppress(InputError):
                self._add(parse_trace_row(text))
        self._totals.end_iteration()
        for text in self._metrics.lines():
            with suppress(InputError):
                self._rows.append(parse_metrics_row(text))
                self._updated_s = time.monotonic()

    def _add(self, row: TraceRow | TraceSum) -> None:
        self._totals.add(row)
        if isinstance(row, TraceSum):
            return
        if self._last and self._last[0].iteration != row.iteration:
            self._last = []
        self._last.append(row)

    def view(self) -> JsonObject:
        """What the live page shows."""
        self.update()
        shown = self._last[0].iteration if self._last else None
        run = build_run_view(self.entry, self._totals, self._rows, shown, self._last)
        return {"live": self._live(), "entries": [self._plan | {"run": run}], "pareto": None}

    def _live(self) -> JsonObject:
        age_s = time.monotonic() - self._updated_s
        losses = [row.loss for row in self._rows if not row.evaluated]
        phases = self.entry.plan.phases
        names = dict.fromkeys(name for phase in phases for name in phase.nodes())
        return {
            "lost": False,
            "age_s": age_s,
            "loss": losses[-1] if losses else None,
            "nodes": {name: self._node(name, age_s / self._dilation()) for name in names},
        }

    def _dilation(self) -> float:
        """Real seconds per emulated second; a run records it only when it ends."""
        walls = {row.iteration: row.wall_s for row in self._rows if row.wall_s is not None}
        for number in reversed(list(self._totals.spans)):
            end_s = self._totals.spans[number][1]
            if number in walls and end_s > 0:
                return max(1.0, walls[number] / end_s)
        return 1.0

    def _node(self, name: str, elapsed_s: float) -> JsonObject:
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
            "last": None if last is None else f"{last.said} of {last.instance}",
            "share": self._share(own),
        }

    def _share(self, own: list[TraceRow]) -> float | None:
        if not self._last:
            return None
        lasted_s = max(each.end_s for each in self._last) - min(each.start_s for each in self._last)
        computed_s = sum(each.end_s - each.start_s for each in own if each.op in CALLS)
        return min(1.0, computed_s / lasted_s) if lasted_s > 0 else None
