"""Reads the files that a run appends to, metrics and trace, as far as their lines are complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from palmette.errors import Fault, InputError

OPS = frozenset({"receive", "forward", "send", "backward", "average", "update"})
SUM = "sum"

# JSON may hold integers beyond any float; they are refused like numbers that are not finite.
_LARGEST, _MOST = 1e300, 10**12


class MetricsRow(NamedTuple):
    """A line of the metrics: the loss of an iteration, or, with ``evaluated``, of held-out data."""

    iteration: int
    loss: float | None
    accuracy: float | None
    wall_s: float | None
    epoch: int | None = None
    evaluated: bool = False


class TraceRow(NamedTuple):
    """A line of the trace: one operation."""

    iteration: int
    node: str
    instance: str
    op: str
    start_s: float
    end_s: float
    size_bytes: float
    half: str = ""

    @property
    def said(self) -> str:
        """What it did in words; of a half of backward, which one."""
        return f"{self.op} {self.half}" if self.half else self.op


class TraceSum(NamedTuple):
    """A line of the trace: iterations of which only sums are written, from the first to the last of them."""

    first_iteration: int
    iteration: int
    start_s: float
    end_s: float


def read_metrics(path: Path) -> Iterator[MetricsRow]:
    """The metrics of a run, none where there is no file yet.

    Raises:
        InputError: a line cannot be read.
    """
    for where, line in _lines(path):
        yield parse_metrics_row(line, where)


def read_trace(path: Path) -> Iterator[TraceRow | TraceSum]:
    """The operations of a run, and the sums of iterations without; none where there is no file yet.

    Raises:
        InputError: a line cannot be read.
    """
    for where, line in _lines(path):
        yield parse_trace_row(line, where)


def parse_metrics_row(text: str, where: str = "") -> MetricsRow:
    """A line of the metrics.

    Raises:
        InputError: it cannot be read; names the line.
    """
    line = _mapping(text, where)
    return MetricsRow(
        _count(line, "iteration", where),
        _number(line, "loss", where, needed=False),
        _number(line, "accuracy", where, needed=False),
        _number(line, "wall_s", where, needed=False),
        _count(line, "epoch", where) if "epoch" in line else None,
        "accuracy" in line,
    )


def parse_trace_row(text: str, where: str = "") -> TraceRow | TraceSum:
    """A line of the trace.

    Raises:
        InputError: it cannot be read; names the line.
    """
    line = _mapping(text, where)
    op = _text(line, "op", where)
    if op not in OPS and op != SUM:
        raise InputError(Fault("op", op, f"expected one of {', '.join(sorted(OPS))}, {SUM}", where))
    start_s, end_s = _number(line, "start_s", where), _number(line, "end_s", where)
    assert start_s is not None
    assert end_s is not None
    if end_s < start_s:
        raise InputError(Fault("end_s", end_s, f"expected at least start_s, {start_s}", where))
    if op == SUM:
        first, last = _count(line, "first_iteration", where), _count(line, "iteration", where)
        if last < first:
            raise InputError(Fault("iteration", last, f"expected at least first_iteration, {first}", where))
        return TraceSum(first, last, start_s, end_s)
    size = _number(line, "bytes", where, needed=False) or 0.0
    node, instance = _text(line, "node", where), _text(line, "instance", where)
    half = _text(line, "half", where) if "half" in line else ""
    return TraceRow(_count(line, "iteration", where), node, instance, op, start_s, end_s, size, half)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Complete lines with their place; the last one may still be half written and is left out."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.endswith("\n") and not line.isspace():
                    yield f"{path}: line {number}", line
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(Fault("", "the file", f"cannot be read: {reason}", str(path))) from None


def _mapping(line: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError(Fault("", line.strip(), "expected a JSON mapping", where))
    return data


def _number(line: dict[str, Any], field: str, where: str, *, needed: bool = True) -> float | None:
    value = line.get(field)
    if value is None and not needed:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise InputError(Fault(field, "missing" if value is None else value, "expected a finite number", where))
    return float(value)


def _count(line: dict[str, Any], field: str, where: str) -> int:
    value = line.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        expected = f"expected 0 or more and at most {_MOST}"
        raise InputError(Fault(field, "missing" if value is None else value, expected, where))
    return value


def _text(line: dict[str, Any], field: str, where: str) -> str:
    value = line.get(field)
    if not isinstance(value, str):
        raise InputError(Fault(field, "missing" if value is None else value, "expected a name", where))
    return value
