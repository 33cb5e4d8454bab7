"""The trace of a link as a CSV file beside the cluster's, from whatever tool wrote it.

    # a comment
    time_s,down_bps,up_bps
    0,12000000,3000000
    1,9000000,2500000

Columns may stand in any order and their names in any case; blank lines, and those that begin with #, are skipped. The
trace begins with its first row, whatever moment that names.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from palmette.errors import Fault, InputError
from palmette.spec.files import read_text, validated
from palmette.spec.link_trace import MOST_ROWS, BandwidthTrace

_TIME, _DOWN, _UP = "time_s", "down_bps", "up_bps"
_HEADERS = ({_TIME, _DOWN}, {_TIME, _DOWN, _UP})
_MOST_BPS = 1e18
Row = tuple[int, list[str]]
"""A line of a file: its number, and its fields."""


def read_trace(path: Path) -> BandwidthTrace:
    """The trace in a CSV file.

    Raises:
        InputError: it cannot be read, or is no trace; names the line.
    """
    file = str(path)
    rows = _rows(read_text(path).removeprefix("\ufeff"), file)  # as spreadsheets write it
    number, fields = next(rows, (1, []))
    header = [each.strip().lower() for each in fields]
    if set(header) not in _HEADERS or len(set(header)) != len(header):
        expected = "expected time_s,down_bps or time_s,down_bps,up_bps"
        raise InputError(Fault(f"line {number}", _shown(fields), expected, file))
    columns = _columns(rows, header, file)
    if not columns[_TIME]:
        raise InputError(Fault(f"line {number}", "the last line", "expected at least one row after it", file))
    begin_s = columns[_TIME][0]
    columns[_TIME] = [each - begin_s for each in columns[_TIME]]
    return validated(BandwidthTrace, {name: tuple(column) for name, column in columns.items()}, file)


def _rows(text: str, file: str) -> Iterator[Row]:
    """The lines that say something."""
    lines = csv.reader(io.StringIO(text))
    try:
        for fields in lines:
            if any(each.strip() for each in fields) and not fields[0].lstrip().startswith("#"):
                yield lines.line_num, fields
    except csv.Error as error:
        raise InputError(Fault(f"line {lines.line_num}", str(error), "expected numbers and commas", file)) from None


def _columns(rows: Iterator[Row], header: Sequence[str], file: str) -> dict[str, list[float]]:
    """The numbers of each column, as far as they are those of a trace."""
    columns: dict[str, list[float]] = {name: [] for name in header}
    into, at, before_s = list(columns.values()), header.index(_TIME), -math.inf
    for number, fields in rows:
        values = _numbers(fields, len(header))
        wrong = _wrong(values, header, at, before_s, len(into[0]))
        if wrong is not None:
            raise InputError(Fault(f"line {number}", _shown(fields), wrong, file))
        before_s = values[at]
        for column, value in zip(into, values, strict=True):
            column.append(value)
    return columns


def _numbers(fields: Sequence[str], many: int) -> list[float]:
    """The fields of a row; none where they are not so many numbers."""
    try:
        values = [float(each) for each in fields]
    except ValueError:
        return []
    return values if len(values) == many else []


def _wrong(values: Sequence[float], header: Sequence[str], at: int, before_s: float, rows: int) -> str | None:
    """What was expected of a row instead; None where it is right."""
    if not values:
        return f"expected {len(header)} numbers"
    if rows == MOST_ROWS:
        return f"expected at most {MOST_ROWS} rows"
    if not before_s < values[at] < math.inf:
        least = "" if math.isinf(before_s) else f" more than {before_s:.12g}, the moment before"
        return f"expected {_TIME}{least or ' to be a number'}"
    for name, value in zip(header, values, strict=True):
        if name != _TIME and not 0.0 <= value <= _MOST_BPS:
            return f"expected {name} from 0 to {_MOST_BPS:g}"
    return None


def _shown(fields: Sequence[str]) -> str:
    shown = ",".join(fields)
    return (shown if len(shown) <= 60 else f"{shown[:60]}…") or "nothing"
