"""The targets of a table: classes or numbers, by how they are written.

0, 1, 7        classes: whole numbers from 0 on
setosa         classes: words, numbered in the order of the alphabet
0.5, -1, 2.0   numbers
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from palmette.zoo.data.table_file import NumberTable, line_error, number

MOST_CLASSES = 2**31


def read_targets(path: Path, table: NumberTable) -> tuple[Tensor, int | None]:
    """The targets, int64 or float32, and how many classes there are, None where they are numbers.

    Raises:
        InputError: some are words and some numbers, or one is missing.
    """
    numbers = [number(cell) for cell in table.targets]
    if all(value is None for value in numbers):
        return _words(path, table)
    for line, cell, value in zip(table.lines, table.targets, numbers, strict=True):
        if value is None:
            raise line_error(path, line, cell, "expected a number, as other targets are")
    if all(cell.isascii() and cell.isdigit() for cell in table.targets):
        return _whole(path, table)
    return torch.tensor(numbers, dtype=torch.float32), None


def _words(path: Path, table: NumberTable) -> tuple[Tensor, int]:
    for line, cell in zip(table.lines, table.targets, strict=True):
        if cell.lower() in {"", "nan", "inf", "-inf", "+inf", "infinity"}:
            raise line_error(path, line, cell, "expected a target")
    names = {name: k for k, name in enumerate(sorted(set(table.targets)))}
    return torch.tensor([names[cell] for cell in table.targets], dtype=torch.long), len(names)


def _whole(path: Path, table: NumberTable) -> tuple[Tensor, int]:
    classes = [int(cell) for cell in table.targets]
    largest = max(classes)
    if largest >= MOST_CLASSES:
        line = table.lines[classes.index(largest)]
        expected = f"expected a class below {MOST_CLASSES}, or numbers with a decimal point"
        raise line_error(path, line, table.targets[classes.index(largest)], expected)
    return torch.tensor(classes, dtype=torch.long), largest + 1
