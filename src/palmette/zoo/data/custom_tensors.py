"""A user's own map-style data set of (tensor, label), without a word on how it is stored.

A sample is stored as its tensor's own numbers: an image of uint8 takes a byte a value, one of float32 four. Token ids
are stored in the smallest integer type that holds the data set's ``vocabulary``, if it has that attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from palmette.zoo.data.base import Indices, LabelTree, Shape, data_error
from palmette.zoo.data.custom_source import KnownLabels, fetched_item, require_dtype
from palmette.zoo.data.item_format import ItemFormat, one_item_format, stack_items
from palmette.zoo.data.raw_bytes import from_bytes, to_bytes
from palmette.zoo.lengths import SampleLengths, known_lengths

TOKEN_DTYPES = (torch.uint8, torch.uint16, torch.int32, torch.int64)


@dataclass(frozen=True)
class TensorDecoder:
    """Tensors of ``shape`` and ``dtype`` from numbers of ``stored_dtype``."""

    shape: Shape
    dtype: torch.dtype
    stored_dtype: torch.dtype

    def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Tensor:
        """Inputs, N × ``shape``; tensors are not augmented.

        Raises:
            InputError: one has another number of bytes.
        """
        return from_bytes(stored, self.shape, self.stored_dtype).to(self.dtype)


@dataclass(frozen=True, eq=False)
class CustomSplit:
    """Some samples of a user's own map-style data set."""

    name: str
    source: Any
    numbers: Sequence[int]
    shape: Shape

    stores_labels = False

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, LabelTree]:
        name = self._name(index)
        inputs, label = fetched_item(self.source, self.numbers[index], name, self.shape)
        require_dtype(inputs, name, self.decoder.dtype)
        if self._vocabulary is not None:
            _require_tokens(inputs, name, self._vocabulary)
        return inputs, self._known.add(index, label)

    def batch(self, indices: Indices) -> tuple[Tensor, LabelTree]:
        """Inputs (N × ``shape``) and labels (a row each).

        Raises:
            InputError: an item is not a tensor of the network's shape with a label like the first.
        """
        numbers = torch.as_tensor(indices).tolist()
        items = [self[index] for index in numbers]
        empty = torch.empty(0, *self.shape, dtype=self.decoder.dtype)
        inputs = torch.stack([inputs for inputs, _ in items]) if items else empty
        return inputs, self._stacked(numbers, [label for _, label in items])

    @property
    def sample_bytes(self) -> float:
        """The size of a stored sample, the same for all."""
        return float(prod(self.shape) * self.decoder.stored_dtype.itemsize)

    @cached_property
    def decoder(self) -> TensorDecoder:
        """What turns stored numbers into tensors; their dtype is that of the first sample."""
        inputs, _ = self._first
        return TensorDecoder(
            self.shape, inputs.dtype, stored_dtype(inputs.dtype, known_vocabulary(self.name, self.source))
        )

    @cached_property
    def lengths(self) -> SampleLengths | None:
        """How long samples are without padding; None where all are alike."""
        known = known_lengths(self.source)
        return None if known is None else known.selected(self.numbers)

    def stored(self, indices: Indices) -> list[bytes]:
        """The numbers of samples.

        Raises:
            InputError: an item is not a tensor of the network's shape with a label.
        """
        dtype = self.decoder.stored_dtype
        return [to_bytes(self[index][0].to(dtype)) for index in torch.as_tensor(indices).tolist()]

    def labels(self, indices: Indices) -> LabelTree:
        """The labels of samples.

        Raises:
            InputError: an item is not a tensor of the network's shape with a label like the first.
        """
        numbers = torch.as_tensor(indices).tolist()
        return self._stacked(numbers, [self._label(index) for index in numbers])

    def _label(self, index: int) -> LabelTree:
        known = self._known.get(index)
        return self[index][1] if known is None else known

    def _stacked(self, numbers: Sequence[int], labels: Sequence[LabelTree]) -> LabelTree:
        return stack_items(labels, lambda k: self._name(numbers[k]), self._label_format)

    @cached_property
    def _label_format(self) -> ItemFormat:
        """The format of the first sample's label, which all have."""
        return one_item_format(self._first[1])

    @cached_property
    def _first(self) -> tuple[Tensor, LabelTree]:
        return fetched_item(self.source, self.numbers[0], self._name(0), self.shape)

    def _name(self, index: int) -> str:
        return f"{self.name}[{self.numbers[index]}]"

    @cached_property
    def _known(self) -> KnownLabels:
        return KnownLabels(len(self))

    @cached_property
    def _vocabulary(self) -> int | None:
        """The number of different tokens, where samples are tokens and it is known."""
        return known_vocabulary(self.name, self.source) if _is_integer(self.decoder.dtype) else None


def stored_dtype(dtype: torch.dtype, vocabulary: int | None) -> torch.dtype:
    """The dtype that tensors are stored in: their own, or for tokens the smallest that holds the vocabulary."""
    if dtype == torch.bool:
        return torch.uint8
    if vocabulary is None or not _is_integer(dtype):
        return dtype
    smallest = next((each for each in TOKEN_DTYPES if vocabulary - 1 <= torch.iinfo(each).max), dtype)
    return smallest if smallest.itemsize < dtype.itemsize else dtype


def known_vocabulary(name: str, source: Any) -> int | None:
    """The number of different tokens that a data set says it has, if it says so."""
    found = getattr(source, "vocabulary", None)
    if isinstance(found, bool) or not isinstance(found, Integral):
        return None
    if found < 1:
        raise data_error(name, f"has a vocabulary of {found}; expected 1 or more")
    return int(found)


def _is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool


def _require_tokens(inputs: Tensor, name: str, vocabulary: int) -> None:
    """Refuse a token that the vocabulary does not have, and that its smaller dtype may not hold."""
    tokens = inputs.long()
    wrong = tokens[(tokens < 0) | (tokens >= vocabulary)]
    if len(wrong):
        raise data_error(name, f"has the token {wrong[0]}; expected 0 to {vocabulary - 1}, by its vocabulary")
