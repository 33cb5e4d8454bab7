"""What a data set is: a training split and a held-out split, whose samples are fetched by number.

A sample is **stored** as bytes: the pixels of an image, a compressed file, token ids. That is what travels. A
**decoder** turns stored samples into inputs, where the first layer runs:

    split.stored(indices) ──▶ bytes ── links ──▶ bytes ──▶ split.decoder.decode ──▶ inputs

``split.batch(indices)`` is the same at once: ``decoder.decode(stored(indices))`` and ``labels(indices)``, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from palmette.errors import Fault, InputError

Indices = Sequence[int] | NDArray[np.integer[Any]] | Tensor
Shape = tuple[int, ...]
LabelTree = Any
"""What samples should become: a tensor with one row per sample, a tuple or dict of such tensors, or None."""


class Decoder(Protocol):
    """Turns stored samples into inputs.

    Small and picklable, holds no samples: it travels to where the first layer runs.
    """

    def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Tensor:
        """Inputs, N × the network's input shape; row k depends on ``stored[k]`` and ``seeds[k]`` alone.

        ``seeds`` are for augmentation, one per sample; without them there is none.
        """
        ...


class DataSplit(Protocol):
    """Samples that can be fetched by number, one or many at a time; a sample does not depend on its batch."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Tensor, LabelTree]: ...

    def batch(self, indices: Indices) -> tuple[Tensor, LabelTree]:
        """Inputs (N × the network's input shape) and labels (one row per sample; N integers for classes)."""
        ...

    @property
    def sample_bytes(self) -> float:
        """The mean size of a stored sample."""
        ...

    @property
    def decoder(self) -> Decoder:
        """What turns stored samples into inputs."""
        ...

    @property
    def stores_labels(self) -> bool:
        """Whether stored bytes contain the label, so that a private label would leave with them."""
        ...

    def stored(self, indices: Indices) -> list[bytes]:
        """Samples as they are stored."""
        ...

    def labels(self, indices: Indices) -> LabelTree:
        """The labels of samples: one row per sample in every tensor; N integers (int64) for classes."""
        ...


@dataclass(frozen=True)
class DataSet:
    """Samples to train on and samples to evaluate on; ``classes`` is None where it is not known."""

    name: str
    train: DataSplit
    held_out: DataSplit
    classes: int | None


def format_shape(shape: Sequence[int]) -> str:
    """A shape as an error message says it."""
    return "×".join(map(str, shape)) or "a single number"


def data_error(name: str, expected: str) -> InputError:
    """An error about the data set of that name."""
    return InputError(Fault("data", name, expected))
