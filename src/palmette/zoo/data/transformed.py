"""Samples that a user's ``transform`` turns into inputs, where the first layer runs: resize, normalise, augment.

What travels is the sample as the data set has it. A transform with a parameter ``seed`` gets the sample's: a function
of the run's seed, the sample and the epoch. In evaluation it is None.

    stored bytes ──▶ the data set's own decoder ──▶ transform ──▶ input
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from palmette.zoo.data.base import DataSplit, Decoder, Indices, LabelTree, Shape, data_error
from palmette.zoo.data.custom_source import call_user, checked_shape, has_parameter

Transform = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class TransformDecoder:
    """Decodes, then calls a transform; ``find`` finds it on another node, so that no code travels."""

    name: str
    inner: Decoder
    shape: Shape
    transform: Transform
    find: Callable[[], Transform] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.find is None:
            return TransformDecoder, (self.name, self.inner, self.shape, self.transform)
        return _found, (self.name, self.inner, self.shape, self.find)

    def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Tensor:
        """Inputs, N × ``shape``.

        Raises:
            InputError: the transform fails, or returns something else.
        """
        raw, takes_seed = self.inner.decode(stored, seeds), has_parameter(self.transform, "seed")
        drawn = [None] * len(stored) if seeds is None else seeds
        inputs = [
            self._transformed(sample, {"seed": seed} if takes_seed else {})
            for sample, seed in zip(raw, drawn, strict=True)
        ]
        return torch.stack(inputs) if inputs else torch.empty(0, *self.shape)

    def _transformed(self, sample: Tensor, options: dict[str, Any]) -> Tensor:
        found = call_user(self.name, "transform", self.transform, sample, **options)
        if not isinstance(found, Tensor):
            raise data_error(self.name, f"its transform returned a {type(found).__name__}; expected a tensor")
        return checked_shape(found, self.name, self.shape)


def _found(name: str, inner: Decoder, shape: Shape, find: Callable[[], Transform]) -> TransformDecoder:
    return TransformDecoder(name, inner, shape, find(), find)


@dataclass(frozen=True, eq=False)
class TransformedSplit:
    """A split whose samples are transformed when they are decoded."""

    split: DataSplit
    decoder: TransformDecoder

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> tuple[Tensor, LabelTree]:
        return self.decoder.decode(self.split.stored([index]))[0], self.split[index][1]

    def batch(self, indices: Indices) -> tuple[Tensor, LabelTree]:
        """Inputs and labels."""
        return self.decoder.decode(self.split.stored(indices)), self.split.labels(indices)

    @property
    def sample_bytes(self) -> float:
        """The mean size of a sample before its transform."""
        return self.split.sample_bytes

    @property
    def stores_labels(self) -> bool:
        """Whether stored bytes contain the label."""
        return self.split.stores_labels

    def stored(self, indices: Indices) -> list[bytes]:
        """Samples as they are stored."""
        return self.split.stored(indices)

    def labels(self, indices: Indices) -> LabelTree:
        """The labels of samples."""
        return self.split.labels(indices)
