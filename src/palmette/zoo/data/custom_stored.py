"""A user's own data set that says how its samples are stored: ``stored(i)`` → bytes, ``decode(bytes)`` → item.

An item is an input of the network, or (input, label). Where ``decode`` has a parameter ``seed``, it gets the sample's:
what a sample becomes is then a function of its bytes and that seed. The label of a sample is what ``label(i)`` returns,
or else the one in its item, or else the one of ``self[i]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from palmette.zoo.data.base import Indices, LabelTree, Shape, data_error
from palmette.zoo.data.custom_decoder import CustomDecoder, Item, first_item, importable_path
from palmette.zoo.data.custom_source import KnownLabels, call_user, fetched_pair, has_parameter
from palmette.zoo.data.item_format import ItemFormat, item_tensors, one_item_format, stack_items
from palmette.zoo.data.sampling import spread

# The mean size is that of all samples, or of so many if there are more.
MEASURED_SAMPLES = 1000


@dataclass(frozen=True, eq=False)
class StoredSplit:
    """Some samples of a user's own data set that says how they are stored; ``train`` is what it was made with."""

    name: str
    source: Any
    numbers: Sequence[int]
    shape: Shape
    train: bool | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, LabelTree]:
        inputs, label = self._item(index)
        return inputs, self._find_label(index, label)

    def batch(self, indices: Indices) -> tuple[Tensor, LabelTree]:
        """Inputs (N × ``shape``) and labels (a row each).

        Raises:
            InputError: a sample cannot be fetched or decoded, or has another shape or no label.
        """
        numbers = torch.as_tensor(indices).tolist()
        items = [self[index] for index in numbers]
        labels = self._stacked(numbers, [label for _, label in items])
        return self.decoder.stack([inputs for inputs, _ in items]), labels

    @cached_property
    def sample_bytes(self) -> float:
        """What the data set says, or else the mean of its samples, a thousand at most."""
        said = getattr(self.source, "sample_bytes", None)
        if not isinstance(said, bool) and isinstance(said, Real) and 0 < float(said) < math.inf:
            return float(said)
        chosen = spread(len(self), MEASURED_SAMPLES)
        return sum(len(self._stored(index)) for index in chosen) / len(chosen)

    @cached_property
    def decoder(self) -> CustomDecoder:
        """What calls the user's ``decode``; all inputs have the dtype of the first."""
        decode = self.source.decode
        return CustomDecoder(
            name=self.name,
            train=self.train,
            path=importable_path(self.source),
            shape=self.shape,
            dtype=self._first[0].dtype,
            takes_seed=has_parameter(decode, "seed"),
            function=decode,
        )

    @property
    def stores_labels(self) -> bool:
        """Whether decoding a sample gives its label, too."""
        return self._first[1] is not None

    def stored(self, indices: Indices) -> list[bytes]:
        """Samples as they are stored.

        Raises:
            InputError: the data set returns something else for one.
        """
        return [self._stored(index) for index in torch.as_tensor(indices).tolist()]

    def labels(self, indices: Indices) -> LabelTree:
        """The labels of samples.

        Raises:
            InputError: one has none, or another form than the first.
        """
        numbers = torch.as_tensor(indices).tolist()
        return self._stacked(numbers, [self._label(index) for index in numbers])

    def _stacked(self, numbers: Sequence[int], labels: Sequence[LabelTree]) -> LabelTree:
        return stack_items(labels, lambda k: self._name(numbers[k]), self._label_format)

    @cached_property
    def _label_format(self) -> ItemFormat:
        """The format of the first sample's label, which all have."""
        return one_item_format(self._label(0))

    def _stored(self, index: int) -> bytes:
        name = self._name(index)
        found = call_user(name, "stored", self.source.stored, self.numbers[index])
        if not isinstance(found, bytes | bytearray | memoryview):
            raise data_error(name, f"stored returned a {type(found).__name__}; expected bytes")
        if not found:
            raise data_error(name, "stored returned no bytes; expected at least one")
        return bytes(found)

    def _item(self, index: int) -> Item:
        return self.decoder.item(self._stored(index), name=self._name(index))

    def _label(self, index: int) -> LabelTree:
        known = self._known.get(index)
        if known is not None:
            return known
        return self._find_label(index, None if self._has_label else self._item(index)[1])

    def _find_label(self, index: int, in_item: LabelTree) -> LabelTree:
        """The label of a sample, given that of its item; where it is looked for, the module says."""
        name, number = self._name(index), self.numbers[index]
        if self._has_label:
            label = item_tensors(call_user(name, "label", self.source.label, number), name)
        elif in_item is not None:
            label = in_item
        elif hasattr(self.source, "__getitem__"):
            _, label = fetched_pair(self.source, number, name)
        else:
            raise data_error(name, "has no label; expected a method label, or a decode that returns (tensor, label)")
        return self._known.add(index, label)

    def _name(self, index: int) -> str:
        return f"{self.name}[{self.numbers[index]}]"

    @property
    def _has_label(self) -> bool:
        return callable(getattr(self.source, "label", None))

    @cached_property
    def _first(self) -> Item:
        return first_item(self.source.decode, self._stored(0), self._name(0), self.shape)

    @cached_property
    def _known(self) -> KnownLabels:
        return KnownLabels(len(self))
