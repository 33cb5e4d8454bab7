"""``csv:FILE[?target=COLUMN]``: rows of numbers, one column of which is the target.

The target is the last column unless the name says another, by its name in the header or by its number, from 1. Whole
numbers from 0 on and words are classes, words in the order of the alphabet; all other numbers are numbers to predict.
Inputs are the other columns, as they are, in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from palmette.zoo.data.base import DataSet, Indices, Shape, data_error, format_shape
from palmette.zoo.data.custom_tensors import TensorDecoder
from palmette.zoo.data.decoded import DecodedSplit
from palmette.zoo.data.files import split_options
from palmette.zoo.data.raw_bytes import to_bytes
from palmette.zoo.data.sampling import hold_out
from palmette.zoo.data.table_file import read_table
from palmette.zoo.data.table_targets import read_targets

OPTIONS = ("target",)


@dataclass(frozen=True, eq=False)
class TableSplit(DecodedSplit):
    """Some rows of a table, in memory."""

    name: str
    rows: Tensor
    values: Tensor
    shape: Shape

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sample_bytes(self) -> float:
        """The size of a row, the same for all."""
        return float(prod(self.shape) * self.rows.itemsize)

    @property
    def decoder(self) -> TensorDecoder:
        """What turns the bytes of rows into tensors."""
        return TensorDecoder(self.shape, self.rows.dtype, self.rows.dtype)

    def stored(self, indices: Indices) -> list[bytes]:
        """The numbers of rows."""
        return [to_bytes(row) for row in self.rows[torch.as_tensor(indices, dtype=torch.long)]]

    def labels(self, indices: Indices) -> Tensor:
        """The target of each row: int64 where it is a class, else float32."""
        return self.values[torch.as_tensor(indices, dtype=torch.long)]


def load(name: str, argument: str, shape: Shape) -> DataSet:
    """The table in a file, with every tenth row held out.

    Raises:
        InputError: the file, its options, one of its lines or the network's shape are not usable.
    """
    path, options = split_options(name, argument, OPTIONS)
    table = read_table(name, path, options.get("target"))
    columns = table.inputs.shape[1]
    if columns != prod(shape):
        raise data_error(name, f"has {columns} columns beside its target; the network takes {format_shape(shape)}")
    values, classes = read_targets(path, table)
    rows = torch.from_numpy(table.inputs)
    train, held_out = (
        TableSplit(name, rows[numbers], values[numbers], shape)
        for numbers in map(torch.tensor, hold_out(name, len(rows)))
    )
    return DataSet(name, train, held_out, classes)
