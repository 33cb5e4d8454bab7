"""The tensors of items, inputs and targets alike, as bytes and back: a tensor, or a tuple or dict of tensors.

Labels travel from the owner of the data to where the loss is computed, as rows of bytes: one row per sample, so that
they are put together and taken apart like the samples themselves.

    labels {"box": N×4 float32, "kind": N int64}  ◀──▶  rows, N × 24 bytes
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from palmette.zoo.data.base import LabelTree, data_error, format_shape
from palmette.zoo.data.raw_bytes import from_bytes, to_bytes

_CLASS_DTYPES = (torch.uint8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class TensorFormat:
    """A tensor of one sample; in a stored sample its numbers may be smaller integers."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    stored_dtype: torch.dtype

    @property
    def row_bytes(self) -> int:
        """Bytes of one sample."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def stored_bytes(self) -> int:
        """Bytes of one sample in what is stored."""
        return prod(self.shape) * self.stored_dtype.itemsize


@dataclass(frozen=True)
class ItemFormat:
    """The format of every tensor of an input or a label, and how they are put together.

    ``structure`` is the tree with the number of a tensor at every leaf. ``classes`` is how many there are, where labels
    are the numbers of classes.
    """

    tensors: tuple[TensorFormat, ...]
    structure: LabelTree
    classes: int | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of one sample's label."""
        return sum(each.row_bytes for each in self.tensors)

    @property
    def stored_bytes(self) -> int:
        """Bytes of one sample's label in what is stored."""
        return sum(each.stored_bytes for each in self.tensors)

    def rows(self, labels: LabelTree, samples: int) -> Tensor:
        """Labels as N × ``row_bytes``."""
        found = _flat(labels)[0]
        parts = [_rows(tensor.to(form.dtype), form) for tensor, form in zip(found, self.tensors, strict=True)]
        return torch.cat(parts, dim=1) if parts else torch.empty(samples, 0, dtype=torch.uint8)

    def read(self, rows: Tensor) -> LabelTree:
        """What was made into rows."""
        parts = torch.split(rows, [each.row_bytes for each in self.tensors], dim=1) if self.tensors else ()
        # Cloned, since a slice of a row may not be aligned for its dtype.
        tensors = [
            part.clone(memory_format=torch.contiguous_format).view(-1).view(form.dtype).view(len(rows), *form.shape)
            for part, form in zip(parts, self.tensors, strict=True)
        ]
        return _tree(tensors, self.structure)

    def stored(self, rows: Tensor) -> list[bytes]:
        """Labels as they are stored, one per row."""
        found = [
            (tensor.to(form.stored_dtype), form)
            for tensor, form in zip(_flat(self.read(rows))[0], self.tensors, strict=True)
        ]
        return [b"".join(to_bytes(tensor[k]) for tensor, _ in found) for k in range(len(rows))]

    def from_stored(self, stored: Sequence[bytes]) -> Tensor:
        """Rows from labels as they are stored.

        Raises:
            InputError: one has another number of bytes.
        """
        tensors, begin = [], 0
        for form in self.tensors:
            end = begin + form.stored_bytes
            tensors.append(from_bytes([each[begin:end] for each in stored], form.shape, form.stored_dtype))
            begin = end
        return self.rows(tensors, len(stored))


def class_format(classes: int) -> ItemFormat:
    """The format of class numbers, stored in the smallest integers that hold them."""
    smallest = next(each for each in _CLASS_DTYPES if classes - 1 <= torch.iinfo(each).max)
    return replace(item_format(torch.zeros(1, dtype=torch.int64), smallest), classes=classes)


def item_format(labels: LabelTree, stored_dtype: torch.dtype | None = None) -> ItemFormat:
    """The format of labels of some samples: what their tensors have in common beside the number of samples."""
    tensors, structure = _flat(labels)
    formats = tuple(TensorFormat(tuple(each.shape[1:]), each.dtype, stored_dtype or each.dtype) for each in tensors)
    return ItemFormat(formats, structure)


def one_item_format(label: LabelTree) -> ItemFormat:
    """The format of the label of one sample."""
    tensors, structure = _flat(label)
    return item_format(_tree([tensor[None] for tensor in tensors], structure))


def stack_items(
    labels: Sequence[LabelTree], names: Callable[[int], str], first: ItemFormat, what: str = "target"
) -> LabelTree:
    """The labels of some samples as one tree, if all have the format of the first; ``names``, ``what`` for errors.

    Raises:
        InputError: one has another format; names it.
    """
    for k, label in enumerate(labels):
        tensors, structure = _flat(label)
        found = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
        expected = [(form.shape, form.dtype) for form in first.tensors]
        if structure != first.structure or found != expected:
            wrong = f"its {what} is {_described(found)}, that of the first sample {_described(expected)}"
            raise data_error(names(k), f"{wrong}; expected one form, e.g. by padding in a recipe's collate")
    columns = [_flat(label)[0] for label in labels]
    stacked = [
        torch.stack([column[k] for column in columns]) if labels else torch.empty(0, *form.shape, dtype=form.dtype)
        for k, form in enumerate(first.tensors)
    ]
    return _tree(stacked, first.structure)


def item_tensors(value: Any, name: str) -> LabelTree:
    """The label of one sample as tensors: whole numbers become int64, others float32.

    Raises:
        InputError: it holds something that is no number.
    """
    return None if value is None else pytree.tree_map(lambda leaf: _label_tensor(leaf, name), value)


def _label_tensor(leaf: Any, name: str) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf.detach().cpu()
    if isinstance(leaf, np.ndarray):
        return torch.from_numpy(leaf)
    try:
        return torch.tensor(operator.index(leaf), dtype=torch.int64)
    except TypeError:
        if isinstance(leaf, Real):
            return torch.tensor(float(leaf), dtype=torch.float32)
    raise data_error(name, f"its target holds a {type(leaf).__name__}; expected numbers or tensors") from None


def _described(formats: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> str:
    shapes = [f"{format_shape(shape)} of {str(dtype).removeprefix('torch.')}" for shape, dtype in formats]
    return " and ".join(shapes) or "nothing"


def _flat(labels: LabelTree) -> tuple[list[Tensor], LabelTree]:
    """The tensors of labels, and the tree with the number of a tensor at every leaf; no label at all has none."""
    if labels is None:
        return [], None
    tensors, structure = pytree.tree_flatten(labels)
    return tensors, pytree.tree_unflatten(range(len(tensors)), structure)


def _tree(tensors: Sequence[Tensor], structure: LabelTree) -> LabelTree:
    return None if structure is None else pytree.tree_map(lambda k: tensors[k], structure)


def _rows(tensor: Tensor, form: TensorFormat) -> Tensor:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).view(len(tensor), form.row_bytes)
