"""Samples whose length varies: which axes of their tensors do, how long each sample is, and batches cut to fit.

A sample is stored as long as the longest of its data set. A batch is cut to the longest of its own samples, wherever
its inputs or targets are used:

    stored   a b c · · ·        batch of both   a b c ·        as a DataLoader with the user's collate_fn has it
             d e f g · ·                        d e f g

How long each sample is, is known to all nodes. So they cut parts of one batch to the same length without a message,
and the result is that of one process, whether or not the network makes a difference of padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree

Lengths = tuple[int, ...]
"""How long a batch is, in each of the lengths that vary."""


@dataclass(frozen=True)
class VaryingAxis:
    """An axis of one of a bundle's tensors, counted with that of the samples, as long as length number ``length``.

    Padding is ``before`` the sample, or behind it.
    """

    tensor: int
    axis: int
    length: int
    before: bool = False

    def cut(self, batch: Tensor, to: int) -> Tensor:
        """A batch of the tensor, cut to a length."""
        return batch.narrow(self.axis, batch.shape[self.axis] - to if self.before else 0, to)


@dataclass(frozen=True, eq=False)
class SampleLengths:
    """The lengths of a data set's samples, a row each, and the axes of inputs and targets that have them."""

    table: NDArray[np.int32]
    inputs: tuple[VaryingAxis, ...]
    targets: tuple[VaryingAxis, ...]

    def longest(self, numbers: Any) -> Lengths:
        """The lengths of a batch of these samples."""
        return tuple(int(each) for each in self.table[np.asarray(numbers)].max(axis=0))

    def selected(self, numbers: Sequence[int]) -> SampleLengths:
        """The lengths of some of the samples."""
        return SampleLengths(self.table[np.asarray(numbers)], self.inputs, self.targets)

    def same_axes(self, other: SampleLengths) -> bool:
        """Whether the same axes of another data set vary."""
        return (self.inputs, self.targets) == (other.inputs, other.targets)


def cut_to(tree: Any, axes: Sequence[VaryingAxis], lengths: Lengths | Mapping[int, int]) -> Any:
    """Tensors of a batch, in a tuple or a dict, cut to its lengths."""
    if not axes:
        return tree
    tensors, structure = pytree.tree_flatten(tree)
    for each in axes:
        tensors[each.tensor] = each.cut(tensors[each.tensor], lengths[each.length])
    return pytree.tree_unflatten(tensors, structure)


def mean_lengths(known: SampleLengths, batch: int, seed: int = 0) -> Lengths:
    """How long batches of so many samples are on average, over one pass through the data."""
    order = np.random.default_rng(seed).permutation(len(known.table))
    found = [known.longest(order[begin : begin + batch]) for begin in range(0, len(order), batch)]
    return tuple(max(1, round(float(each))) for each in np.mean(found, axis=0))


def known_lengths(split: Any) -> SampleLengths | None:
    """How long the samples of a split are, or of a user's data set; None where all are alike."""
    found = getattr(split, "lengths", None)
    return found if isinstance(found, SampleLengths) else None


def batch_cut_to_fit(split: Any, numbers: Sequence[int]) -> tuple[Any, Any]:
    """Inputs and targets of some samples, as long as the longest of them."""
    inputs, targets = split.batch(numbers)
    known = known_lengths(split)
    if known is None:
        return inputs, targets
    lengths = known.longest(numbers)
    return cut_to(inputs, known.inputs, lengths), cut_to(targets, known.targets, lengths)


def same_rows(one: Any, other: Any) -> bool:
    """Whether two trees hold the same numbers in the same shapes."""
    found = [[leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)] for tree in (one, other)]
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(*found, strict=True))
