"""A user's own map-style data set whose inputs are several tensors: a tuple, or a dict such as HF's tokenizers return.

A sample is stored as the numbers of all its tensors; integers in the smallest type that holds the data set's
``vocabulary``, if it has that attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from palmette.zoo.data.base import Indices, LabelTree
from palmette.zoo.data.custom_source import fetched_pair
from palmette.zoo.data.custom_tensors import known_vocabulary, stored_dtype
from palmette.zoo.data.item_format import ItemFormat, item_tensors, one_item_format, stack_items
from palmette.zoo.lengths import SampleLengths, known_lengths


@dataclass(frozen=True)
class BundleDecoder:
    """Inputs of one format from their stored numbers."""

    form: ItemFormat

    def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Any:
        """Inputs, each tensor with one row per sample; they are not augmented.

        Raises:
            InputError: one has another number of bytes.
        """
        return self.form.read(self.form.from_stored(stored))


@dataclass(frozen=True, eq=False)
class BundleSplit:
    """Some samples of a user's own data set, whose inputs are several tensors."""

    name: str
    source: Any
    numbers: Sequence[int]

    stores_labels = False

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[Any, LabelTree]:
        inputs, label = fetched_pair(self.source, self.numbers[index], self._name(index))
        return item_tensors(inputs, self._name(index)), label

    def batch(self, indices: Indices) -> tuple[Any, LabelTree]:
        """Inputs and labels, each tensor with one row per sample.

        Raises:
            InputError: an item has another form than the first.
        """
        numbers = torch.as_tensor(indices).tolist()
        items = [self[index] for index in numbers]
        return self._stacked(numbers, items, 0), self._stacked(numbers, items, 1)

    @property
    def sample_bytes(self) -> float:
        """The size of a stored sample, the same for all."""
        return float(self._formats[0].stored_bytes)

    @property
    def decoder(self) -> BundleDecoder:
        """What turns stored numbers into inputs."""
        return BundleDecoder(self._formats[0])

    @cached_property
    def lengths(self) -> SampleLengths | None:
        """How long samples are without padding; None where all are alike."""
        known = known_lengths(self.source)
        return None if known is None else known.selected(self.numbers)

    def stored(self, indices: Indices) -> list[bytes]:
        """The numbers of samples.

        Raises:
            InputError: an item has another form than the first.
        """
        inputs, form = self.batch(indices)[0], self._formats[0]
        return form.stored(form.rows(inputs, len(torch.as_tensor(indices))))

    def labels(self, indices: Indices) -> LabelTree:
        """The labels of samples.

        Raises:
            InputError: one has another form than the first.
        """
        return self.batch(indices)[1]

    def _stacked(self, numbers: Sequence[int], items: Sequence[tuple[Any, LabelTree]], part: int) -> LabelTree:
        form, what = self._formats[part], ("input", "target")[part]
        return stack_items([item[part] for item in items], lambda k: self._name(numbers[k]), form, what)

    def _name(self, index: int) -> str:
        return f"{self.name}[{self.numbers[index]}]"

    @cached_property
    def _formats(self) -> tuple[ItemFormat, ItemFormat]:
        """The formats of the first sample's input and label, which all have."""
        inputs, label = (one_item_format(each) for each in self[0])
        vocabulary = known_vocabulary(self.name, self.source)
        tensors = tuple(replace(each, stored_dtype=stored_dtype(each.dtype, vocabulary)) for each in inputs.tensors)
        return replace(inputs, tensors=tensors), label
