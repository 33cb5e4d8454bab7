"""A user's own data set: what ``package.module:callable`` returns, map-style, of (tensor, label).

A callable with a parameter ``train`` is called for either split; otherwise every tenth sample is held out.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from palmette.zoo.data.base import DataSet, Indices, Shape, data_error, format_shape
from palmette.zoo.import_callable import import_callable

# A single data set is shuffled once, by this seed, and one sample in so many held out.
SPLIT_SEED = 0
HOLD_OUT_ONE_IN = 10


@dataclass(frozen=True, eq=False)
class CustomSplit:
    """Some samples of a user's own map-style data set."""

    name: str
    source: Any
    numbers: Sequence[int]
    shape: Shape

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = self.numbers[index]
        name = f"{self.name}[{number}]"
        try:
            item = self.source[number]
        except Exception as error:
            raise data_error(name, f"fetching it failed: {type(error).__name__}: {error}") from error
        return _checked_item(item, name, self.shape)

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs (N × ``shape``) and labels (N integers).

        Raises:
            InputError: an item is not a tensor of the network's shape with a label.
        """
        items = [self[index] for index in torch.as_tensor(indices).tolist()]
        inputs = torch.stack([inputs for inputs, _ in items]) if items else torch.empty(0, *self.shape)
        return inputs, torch.tensor([label for _, label in items], dtype=torch.long)


def load(name: str, shape: Shape) -> DataSet:
    """The data set that a user's callable returns.

    Raises:
        InputError: it cannot be imported or called, or does not return samples of ``shape``.
    """
    make = import_callable(name, "data")
    if "train" in inspect.signature(make).parameters:
        sources = [_call(name, make, train=True), _call(name, make, train=False)]
        train, held_out = (CustomSplit(name, source, range(len(source)), shape) for source in sources)
    else:
        sources = [_call(name, make)]
        train, held_out = _split(name, sources[0], shape)
    for split in (train, held_out):
        _ = split[0]  # a wrong shape is found now, not after the workers have started
    return DataSet(name, train, held_out, _number_of_classes(sources[0]))


def _call(name: str, make: Callable[..., Any], **options: bool) -> Any:
    """What the user's callable returns, if it is a data set with something in it."""
    try:
        source = make(**options)
    except Exception as error:
        raise data_error(name, f"calling it failed: {type(error).__name__}: {error}") from error
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
        expected = f"returned a {type(source).__name__}; expected a data set with __len__ and __getitem__"
        raise data_error(name, expected)
    if len(source) == 0:
        raise data_error(name, "returned an empty data set; expected samples")
    return source


def _split(name: str, source: Any, shape: Shape) -> tuple[CustomSplit, CustomSplit]:
    if len(source) < HOLD_OUT_ONE_IN:
        raise data_error(name, f"has {len(source)} samples; expected {HOLD_OUT_ONE_IN}, to hold one out")
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(SPLIT_SEED)).tolist()
    held_out = sorted(order[: len(source) // HOLD_OUT_ONE_IN])
    train = sorted(order[len(source) // HOLD_OUT_ONE_IN :])
    return CustomSplit(name, source, train, shape), CustomSplit(name, source, held_out, shape)


def _number_of_classes(source: Any) -> int | None:
    """How many classes a data set has, where it has the attribute that torchvision's have."""
    classes = getattr(source, "classes", None)
    if isinstance(classes, int):
        return classes
    return len(classes) if isinstance(classes, Sized) else None


def _checked_item(item: Any, name: str, shape: Shape) -> tuple[Tensor, int]:
    try:
        inputs, label = item
        target = operator.index(label)
    except (TypeError, ValueError):
        raise data_error(name, f"is a {type(item).__name__}; expected (tensor, label)") from None
    if not isinstance(inputs, Tensor):
        raise data_error(name, f"starts with a {type(inputs).__name__}; expected a tensor")
    if inputs.shape != shape:
        raise data_error(name, f"is a tensor of {format_shape(inputs.shape)}; the network takes {format_shape(shape)}")
    return inputs, target
