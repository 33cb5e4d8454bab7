"""What a data set is: a training split and a held-out split, whose samples are fetched by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palmette.errors import Fault, InputError

Indices = Sequence[int] | NDArray[np.integer[Any]] | Tensor
Shape = tuple[int, ...]


class DataSplit(Protocol):
    """Samples that can be fetched by number, one or many at a time; a sample does not depend on its batch."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Tensor, int]: ...

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs (N × the network's input shape, float) and labels (N integers)."""
        ...


@dataclass(frozen=True)
class DataSet:
    """Samples to train on and samples to evaluate on; ``classes`` is None where it is not known."""

    name: str
    train: DataSplit
    held_out: DataSplit
    classes: int | None


@dataclass(frozen=True, eq=False)
class ConcatSplit:
    """Several splits, one after the other."""

    splits: Sequence[DataSplit]

    def __len__(self) -> int:
        return sum(map(len, self.splits))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        inputs, labels = self.batch([index])
        return inputs[0], int(labels[0])

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs and labels, in the order of ``indices``."""
        at = torch.as_tensor(indices, dtype=torch.long)
        ends = torch.tensor([len(split) for split in self.splits]).cumsum(0)
        which = torch.bucketize(at, ends, right=True)
        places = [(which == k).nonzero().flatten() for k in range(len(self.splits))]
        found = [
            split.batch(at[place] - (int(end) - len(split)))
            for split, place, end in zip(self.splits, places, ends, strict=True)
            if len(place)
        ]
        order = torch.argsort(torch.cat(places))
        return torch.cat([inputs for inputs, _ in found])[order], torch.cat([labels for _, labels in found])[order]


def concatenate(sets: Sequence[DataSet]) -> DataSet:
    """Several data sets as one; the number of classes is the largest of theirs."""
    if len(sets) == 1:
        return sets[0]
    known = [each.classes for each in sets if each.classes is not None]
    return DataSet(
        name=" + ".join(each.name for each in sets),
        train=ConcatSplit([each.train for each in sets]),
        held_out=ConcatSplit([each.held_out for each in sets]),
        classes=max(known, default=None),
    )


def format_shape(shape: Sequence[int]) -> str:
    """A shape as an error message says it."""
    return "×".join(map(str, shape)) or "a single number"


def data_error(name: str, expected: str) -> InputError:
    """An error about the data set of that name."""
    return InputError(Fault("data", name, expected))
