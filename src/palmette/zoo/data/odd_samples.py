"""Samples of a user's own data that no training can use, found before anything starts: of another shape, or NaN."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree

from palmette.zoo.data.base import DataSet, DataSplit, data_error
from palmette.zoo.data.registry import find_entry
from palmette.zoo.data.sampling import spread

MOST_SAMPLES = 100
"""That are looked at, from the first to the last."""


def refuse_odd_samples(data: DataSet) -> None:
    """Refuse data of a user's own in which samples differ in their form, or have NaN; looks at some of them.

    Raises:
        InputError: names the first such sample.
    """
    if find_entry(data.name)[0] is None:
        for split in (data.train, data.held_out):
            for number in spread(len(split), MOST_SAMPLES):
                _refuse_odd(split, number, data.name)


def _refuse_odd(split: DataSplit, number: int, name: str) -> None:
    inputs, labels = split.batch([number])  # names a sample of another form
    for what, tree in (("input", inputs), ("target", labels)):
        if any(map(_has_nan, pytree.tree_leaves(tree))):
            where = f"{name}[{getattr(split, 'numbers', range(len(split)))[number]}]"
            raise data_error(where, f"its {what} has NaN; expected numbers")


def _has_nan(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_floating_point() and bool(leaf.isnan().any())
