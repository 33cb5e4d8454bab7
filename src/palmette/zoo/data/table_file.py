"""A table in a file of comma-separated values: numbers, but for the target's column, with a header or without.

The first row is a header if no column beside the target's has a number there.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palmette.errors import InputError, expected_name
from palmette.zoo.data.base import data_error
from palmette.zoo.data.files import file_error

Row = tuple[int, list[str]]
"""The number of a line, from 1, and its cells."""

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class NumberTable:
    """N × C inputs in float32, and the N targets as they are written, each with the number of its line."""

    inputs: NDArray[np.float32]
    targets: Sequence[str]
    lines: Sequence[int]


def read_table(name: str, path: Path, target: str | None) -> NumberTable:
    """The table in a file; ``target`` is the name or the number of a column, by default the last.

    Raises:
        InputError: the file is no table of numbers, or has no such column.
    """
    rows = _rows(path)
    line, first = next(rows, (1, []))
    if len(first) < 2:
        what = "has one column" if first else "is empty"
        raise file_error(path, what, "expected columns of numbers and a target, with commas between them")
    column = _target_column(name, first, target)
    body = rows if _is_header(first, column, target) else chain([(line, first)], rows)
    return _read_rows(path, body, column, len(first))


def number(cell: str) -> float | None:
    """The number in a cell, if it is one, and finite in float32."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if isfinite(value) and abs(value) <= LARGEST and "_" not in cell else None


def line_error(path: Path, line: int, value: object, expected: str) -> InputError:
    """An error about what stands in a line."""
    return file_error(f"{path}:{line}", value, expected)


def _rows(path: Path) -> Iterator[Row]:
    """The rows that are not empty."""
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                line = reader.line_num
                if any(map(str.strip, row)):
                    yield line, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise line_error(path, line + 1, "no text", f"{error}; expected comma-separated values in UTF-8") from error
    except OSError as error:
        raise file_error(path, "cannot be read", f"{error.strerror}; expected a table") from error


def _target_column(name: str, first: Sequence[str], target: str | None) -> int:
    """The place of the target's column, given the first row."""
    if target is None:
        return len(first) - 1
    titles = [title.strip() for title in first]
    if target in titles:
        return titles.index(target)
    if target.isascii() and target.isdigit() and len(target) < 10 and 1 <= int(target) <= len(first):
        return int(target) - 1
    known = [f"1 to {len(first)}"] if any(number(title) is not None for title in titles) else titles
    raise data_error(name, f"target={target}: {expected_name(target, 'column', known)}")


def _is_header(first: Sequence[str], column: int, target: str | None) -> bool:
    named = target is not None and first[column].strip() == target and number(target) is None
    return named or all(number(cell) is None for k, cell in enumerate(first) if k != column)


def _read_rows(path: Path, rows: Iterable[Row], column: int, columns: int) -> NumberTable:
    cells, targets, lines = array("f"), [], array("q")
    for line, row in rows:
        if len(row) != columns:
            raise line_error(path, line, f"{len(row)} columns", f"expected {columns}, as in the first line")
        targets.append(row.pop(column).strip())
        lines.append(line)
        try:
            cells.extend(map(float, row))
        except ValueError:
            raise _wrong_cell(path, line, row) from None
        if "_" in "".join(row):  # Python takes 1_000 for a number
            raise _wrong_cell(path, line, row)
    if not targets:
        raise file_error(path, "no rows", "expected rows of numbers below the header")
    inputs = np.array(cells, np.float32).reshape(len(targets), columns - 1)
    wrong = np.flatnonzero(~np.isfinite(inputs).all(axis=1))
    if len(wrong):
        line, row = next(each for each in _rows(path) if each[0] == lines[wrong[0]])
        raise _wrong_cell(path, line, row[:column] + row[column + 1 :])
    return NumberTable(inputs, targets, lines)


def _wrong_cell(path: Path, line: int, row: Sequence[str]) -> InputError:
    return line_error(path, line, next(cell for cell in row if number(cell) is None), "expected a number")
