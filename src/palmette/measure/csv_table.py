"""A CSV with a header, as spreadsheets, meters and ``palmette power sample`` write it."""

from __future__ import annotations

import csv
import io
from typing import NamedTuple

from palmette.errors import Fault, InputError
from palmette.spec.files import read_text

_BYTE_ORDER_MARK = "\ufeff"


class Row(NamedTuple):
    """The cells of a row without the space around them, and the line on which it ends."""

    line: int
    cells: list[str]


class CsvTable(NamedTuple):
    """The names of the columns in lower case, and the rows that are not empty."""

    header: list[str]
    rows: list[Row]


def read_csv(path: str) -> CsvTable:
    """Read a file.

    Raises:
        InputError: it cannot be read.
    """
    reader = csv.reader(io.StringIO(read_text(path).removeprefix(_BYTE_ORDER_MARK), newline=""), skipinitialspace=True)
    try:
        rows = [Row(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as error:
        raise InputError(Fault(f"line {reader.line_num}", "the row", f"cannot be parsed: {error}", path)) from None
    header = [name.lower() for name in rows[0].cells] if rows else []
    return CsvTable(header, [row for row in rows[1:] if any(row.cells)])
