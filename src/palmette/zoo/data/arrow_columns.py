"""The columns of an Arrow data set: which are used, and what is stored of them.

A compressed image is stored as it is, numbers in their own dtype; they are decoded to float32 or int64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palmette.errors import InputError, listed
from palmette.zoo.data.base import Decoder, Shape, data_error, format_shape
from palmette.zoo.data.compressed import CompressedImageDecoder, require_network_of_images, require_whole
from palmette.zoo.data.custom_tensors import TensorDecoder
from palmette.zoo.data.files import file_error
from palmette.zoo.data.raw_bytes import to_bytes

INPUTS = ("image", "img", "pixel_values", "input_ids", "inputs", "features", "x")
TARGETS = ("label", "labels")


class InputColumn(Protocol):
    """What goes into the network, row by row."""

    @property
    def decoder(self) -> Decoder:
        """What turns stored samples into inputs."""
        ...

    def stored(self, number: int) -> bytes:
        """A row as it is stored."""
        ...


class TargetColumn(Protocol):
    """What the loss compares outputs with; ``classes`` is None where targets are no classes."""

    @property
    def classes(self) -> int | None:
        """How many classes there are."""
        ...

    def targets(self, numbers: Sequence[int]) -> Tensor:
        """The targets of rows, one a row."""
        ...


@dataclass(frozen=True, eq=False)
class ImageColumn:
    """Compressed images; ``save_to_disk`` puts those into the rows that were files."""

    name: str
    rows: Any
    column: str
    shape: Shape

    @property
    def decoder(self) -> CompressedImageDecoder:
        """What turns compressed images into inputs."""
        return CompressedImageDecoder(self.shape)

    def stored(self, number: int) -> bytes:
        """An image as it was compressed.

        Raises:
            InputError: it is missing or broken.
        """
        found = read_cell(self.name, self.rows, self.column, number)
        if found["bytes"] is None:
            raise row_error(self.name, number, f"no {self.column}", "expected one in every row")
        return require_whole(found["bytes"], f"{self.name}[{number}]")


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """Numbers of one shape in every row, stored as ``stored_dtype``."""

    name: str
    rows: Any
    column: str
    shape: Shape
    dtype: torch.dtype
    stored_dtype: torch.dtype

    classes = None

    @property
    def decoder(self) -> TensorDecoder:
        """What turns the bytes of numbers into tensors."""
        return TensorDecoder(self.shape, self.dtype, self.stored_dtype)

    def stored(self, number: int) -> bytes:
        """The numbers of a row.

        Raises:
            InputError: they are missing or of another shape.
        """
        return to_bytes(self._tensor(number).to(self.stored_dtype))

    def targets(self, numbers: Sequence[int]) -> Tensor:
        """The numbers of rows.

        Raises:
            InputError: some are missing or of another shape.
        """
        empty = torch.empty(0, *self.shape, dtype=self.dtype)
        return torch.stack([self._tensor(number) for number in numbers]) if numbers else empty

    def _tensor(self, number: int) -> Tensor:
        found = read_row(self.name, self.rows, self.column, number)
        if found.shape != self.shape:
            value = f"{self.column} of {format_shape(found.shape)}"
            raise row_error(self.name, number, value, f"expected {format_shape(self.shape)}")
        return torch.from_numpy(found).to(self.dtype)


@dataclass(frozen=True, eq=False)
class ScalarColumn:
    """One number a row, all in memory."""

    values: Tensor
    classes: int | None

    def targets(self, numbers: Sequence[int]) -> Tensor:
        """The numbers of rows."""
        return self.values[torch.as_tensor(numbers, dtype=torch.long)]


def row_error(name: str, number: int, value: str, expected: str) -> InputError:
    """An error about a row."""
    return file_error(f"{name}[{number}]", value, expected)


def find_columns(name: str, rows: Any) -> tuple[str, str]:
    """The column that goes into the network, and the one that is the target.

    Raises:
        InputError: it is not clear which.
    """
    columns = list(rows.column_names)
    target = next((each for each in TARGETS if each in columns), None)
    if target is None:
        raise data_error(name, f"has the columns {listed(columns)}; expected one named label or labels")
    others = [each for each in columns if each not in TARGETS]
    known = [each for each in INPUTS if each in others] or (others if len(others) == 1 else [])
    if not known:
        expected = f"expected one of them to be named {', '.join(INPUTS)}"
        raise data_error(name, f"has the columns {listed(others) or 'of its target alone'}; {expected}")
    return known[0], target


def input_column(name: str, rows: Any, column: str, shape: Shape) -> InputColumn:
    """A column as what goes into the network.

    Raises:
        InputError: it holds neither images nor numbers, or does not fit.
    """
    if type(rows.features[column]).__name__ == "Image":
        require_network_of_images(name, shape)
        import datasets

        return ImageColumn(name, rows.cast_column(column, datasets.Image(decode=False)), column, shape)
    own = _own_dtype(name, rows, column)
    return NumberColumn(name, _numbers(rows, column), column, shape, *_dtypes(own))


def target_column(name: str, rows: Any, column: str) -> TargetColumn:
    """A column as targets: whole numbers are classes, unless there are several a row.

    Raises:
        InputError: it holds no numbers, a class is negative, or one is missing.
    """
    own = _own_dtype(name, rows, column)
    if _is_nested(rows.features[column]):
        numbers = _numbers(rows, column)
        shape = read_row(name, numbers, column, 0).shape
        return NumberColumn(name, numbers, column, shape, _dtypes(own)[0], _dtypes(own)[0])
    return _scalars(name, rows, column, own)


def _scalars(name: str, rows: Any, column: str, own: np.dtype[Any]) -> ScalarColumn:
    found = _fetched(name, rows.select_columns([column]).with_format(None), column, slice(None))
    missing = next((k for k, value in enumerate(found) if value is None or not math.isfinite(value)), None)
    if missing is not None:
        raise row_error(name, missing, f"no {column}", "expected one in every row")
    values = torch.tensor(found).to(_dtypes(own)[0])
    if own.kind == "f":
        return ScalarColumn(values, None)
    negative = next((k for k, value in enumerate(found) if value < 0), None)
    if negative is not None:
        raise row_error(name, negative, f"{column} {found[negative]}", "expected a class of 0 or more")
    declared = getattr(rows.features[column], "num_classes", None)
    return ScalarColumn(values, max(max(found) + 1, declared or 0))


def read_cell(name: str, rows: Any, column: str, number: int) -> Any:
    """What stands in a row.

    Raises:
        InputError: nothing does, or the file is damaged there.
    """
    found = _fetched(f"{name}[{number}]", rows, column, number)
    if found is None:
        raise row_error(name, number, f"no {column}", "expected one in every row")
    return found


def read_row(name: str, rows: Any, column: str, number: int) -> NDArray[Any]:
    """The numbers of a row.

    Raises:
        InputError: some are missing, or they form no array.
    """
    with np.errstate(over="ignore"):  # of numbers that float32 does not hold, which are refused below
        found = np.asarray(read_cell(name, rows, column, number))
    if found.dtype.kind not in "fiub" or (found.dtype.kind == "f" and not np.isfinite(found).all()):
        raise row_error(name, number, column, "expected an array of numbers, ragged nowhere and with none missing")
    return np.ascontiguousarray(found)


def _fetched(where: str, rows: Any, column: str, at: int | slice) -> Any:
    try:
        return rows[at][column]
    except Exception as error:
        expected = f"cannot be read: {type(error).__name__}: {error}; expected what save_to_disk wrote"
        raise file_error(where, column, expected) from error


def _numbers(rows: Any, column: str) -> Any:
    return rows.select_columns([column]).with_format("numpy")


def _is_nested(feature: Any) -> bool:
    return isinstance(feature, list) or hasattr(feature, "feature") or hasattr(feature, "shape")


def _own_dtype(name: str, rows: Any, column: str) -> np.dtype[Any]:
    """The dtype that a column's numbers have in the file."""
    feature = rows.features[column]
    while isinstance(feature, list) or hasattr(feature, "feature"):
        feature = feature[0] if isinstance(feature, list) else feature.feature
    said = str(getattr(feature, "dtype", type(feature).__name__))
    try:
        found = np.dtype(said)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "fiub":
        raise data_error(name, f"its column {column} holds {said}; expected numbers, or images to put in")
    return found


def _dtypes(own: np.dtype[Any]) -> tuple[torch.dtype, torch.dtype]:
    """What numbers are decoded to, and what they are stored as."""
    if own.kind == "f":
        return torch.float32, torch.float16 if own.itemsize == 2 else torch.float32
    signed = {1: torch.int8, 2: torch.int16, 4: torch.int32}
    small = {1: torch.uint8, 2: torch.uint16}
    return torch.int64, (signed if own.kind == "i" else small).get(own.itemsize, torch.int64)
