"""A user's own data set: that of a recipe, or what ``package.module:callable`` returns, map-style, of (input, target).

A pair is what to train on and what is held out, and so is what a callable with a parameter ``train`` returns for
either; otherwise every tenth sample is held out. A data set with ``stored`` and ``decode`` says itself how its samples
are stored; others are stored as their tensors' own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any

from torch import Tensor

from palmette.zoo.data.base import DataSet, Shape, data_error
from palmette.zoo.data.custom_bundles import BundleSplit
from palmette.zoo.data.custom_source import Sources, fetched_pair, has_stored, named_sources
from palmette.zoo.data.custom_stored import StoredSplit
from palmette.zoo.data.custom_tensors import CustomSplit
from palmette.zoo.data.sampling import hold_out


def load(name: str, shape: Shape) -> DataSet:
    """The data set that a user's callable returns.

    Raises:
        InputError: it cannot be imported or called, or does not return samples of ``shape``.
    """
    return of_sources(name, shape, named_sources(name))


def of_sources(name: str, shape: Shape, sources: Sources) -> DataSet:
    """The data set of a user's own, as one source or as two.

    Raises:
        InputError: it does not return samples of ``shape``.
    """
    if sources.held_out is not None:
        whole = {True: sources.train, False: sources.held_out}
        splits = [_split(name, each, range(len(each)), shape, train) for train, each in whole.items()]
    else:
        parts = hold_out(name, len(sources.train))
        splits = [_split(name, sources.train, numbers, shape, None) for numbers in parts]
    for split in splits:
        _ = split[0]  # a wrong shape is found now, not after the workers have started
    train, held_out = splits
    return DataSet(name, train, held_out, _number_of_classes(sources.train))


def first_shape(name: str, sources: Sources) -> Shape:
    """The shape of the first sample, as the data set has it.

    Raises:
        InputError: it is no tensor.
    """
    inputs, _ = fetched_pair(sources.train, 0, f"{name}[0]")
    if not isinstance(inputs, Tensor):
        raise data_error(f"{name}[0]", f"starts with a {type(inputs).__name__}; expected a tensor")
    return tuple(inputs.shape)


def _split(
    name: str, source: Any, numbers: Sequence[int], shape: Shape, train: bool | None
) -> CustomSplit | StoredSplit | BundleSplit:
    if has_stored(name, source):
        return StoredSplit(name, source, numbers, shape, train)
    inputs, _ = fetched_pair(source, numbers[0], f"{name}[{numbers[0]}]")
    if isinstance(inputs, Mapping | tuple | list):
        return BundleSplit(name, source, numbers)
    return CustomSplit(name, source, numbers, shape)


def _number_of_classes(source: Any) -> int | None:
    """How many classes a data set has, where it has the attribute that torchvision's have."""
    classes = getattr(source, "classes", None)
    if isinstance(classes, int):
        return classes
    return len(classes) if isinstance(classes, Sized) else None
