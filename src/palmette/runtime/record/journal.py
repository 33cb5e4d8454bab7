"""The files that a run writes, line by line: metrics and trace."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from palmette.errors import RunError
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.record.trace_sums import TraceSums
from palmette.spec.durable import flush, write_file
from palmette.spec.plan import Phase

REMOVED = "it was removed while the run was going on"


class Journal:
    """The files ``metrics.jsonl`` and ``trace.jsonl`` of a run; keeps lines of iterations ``before`` a number.

    With ``full_trace``, the trace has the operations of all iterations. ``on_trace`` hears of all in any case.
    """

    def __init__(self, folder: Path, *, before: int, full_trace: bool = False) -> None:
        self._folder, self._sums = folder, TraceSums(full=full_trace)
        self.on_trace: list[Callable[[Sequence[Mapping[str, Any]]], None]] = []
        self._metrics = self._open("metrics.jsonl", before)
        self._trace = self._open("trace.jsonl", before)

    def _open(self, name: str, before: int) -> IO[str]:
        path = self._folder / name
        try:
            if before and path.exists():
                _shorten(path, before)
            return path.open("a" if before else "w", encoding="utf-8")
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror}") from None

    def metric(self, **values: Any) -> None:
        """Add a line to the metrics."""
        self._write(self._metrics, [values])

    def begin_phase(self) -> None:
        """Trace the next iterations with all their operations."""
        self._sums.begin_phase()

    def trace(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Add operations of an iteration to the trace."""
        for told in self.on_trace:
            told(operations)
        self._write(self._trace, self._sums.taken(operations))

    def _write(self, file: IO[str], lines: Iterable[Mapping[str, Any]]) -> None:
        try:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            if os.fstat(file.fileno()).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, REMOVED)
        except OSError as error:
            raise _unwritable(file, error) from None

    def flush(self) -> None:
        """Wait until everything that was added is on the disk."""
        self._write(self._trace, self._sums.rest())
        for file in (self._metrics, self._trace):
            try:
                flush(Path(file.name))
            except OSError as error:
                raise _unwritable(file, error) from None

    def close(self) -> None:
        """Close the files; write errors were reported when they occurred."""
        with suppress(RunError):
            self._write(self._trace, self._sums.rest())
        for file in (self._metrics, self._trace):
            with suppress(OSError):
                file.close()


def _unwritable(file: IO[str], error: OSError) -> RunError:
    return RunError(f"{file.name}: cannot be written: {error.strerror}")


def _shorten(path: Path, before: int) -> None:
    """Remove the lines of later iterations, which a resumed run writes again, and an incomplete line."""

    def write(draft: Path) -> None:
        with path.open(encoding="utf-8", errors="replace") as old, draft.open("w", encoding="utf-8") as new:
            new.writelines(line for line in old if _iteration(line) < before)

    write_file(path, write)


def _iteration(line: str) -> float:
    try:
        return int(json.loads(line)["iteration"])
    except (ValueError, TypeError, KeyError):
        return float("inf")


def operations(
    iteration: int, phase: Phase, records: Mapping[str, Sequence[OperationRecord]], zero_s: float, dilation: float
) -> list[dict[str, Any]]:
    """The trace of an iteration: seconds since the run began, on the emulated clock; in order of start.

    A receive starts when its message was sent, not when the receiver started to wait for it.
    """
    sent = {r.channel: r.start_s for lines in records.values() for r in lines if r.op == "send"}
    made = []
    for node, lines in records.items():
        for r in lines:
            op, _, half = r.op.partition(" ")
            start = min(sent.get(r.channel, r.start_s), r.end_s) if r.op == "receive" else r.start_s
            made.append(
                {
                    "iteration": iteration,
                    "node": node,
                    "instance": phase.instances[r.instance].id,
                    "op": op,
                    "start_s": (start - zero_s) / dilation,
                    "end_s": (r.end_s - zero_s) / dilation,
                    "bytes": r.bytes,
                }
                | ({"half": half} if half else {})
            )
    return sorted(made, key=lambda line: line["start_s"])


def span_s(trace: Iterable[Mapping[str, Any]], began_s: float | None = None) -> float:
    """Seconds from the start of the first operation, or from ``began_s``, to the end of the last."""
    lines = list(trace)
    start_s: float = min(line["start_s"] for line in lines) if began_s is None else began_s
    end_s: float = max(line["end_s"] for line in lines)
    return max(0.0, end_s - start_s)
