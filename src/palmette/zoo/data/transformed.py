"""Samples that a user's ``transform`` turns into inputs, where the first layer runs: resize, normalise, augment.

What travels is the sample as the data set has it. A transform with a parameter ``seed`` gets the sample's: a function
of the run's seed, the sample and the epoch. In evaluation it is None.

    stored bytes ──▶ the data set's own decoder ──▶ transform ──▶ input
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from palmette.errors import InputError
from palmette.zoo.data.base import DataSplit, Decoder, Indices, LabelTree, Shape, data_error
from palmette.zoo.data.custom_source import call_user, checked_shape, has_parameter
from palmette.zoo.lengths import SampleLengths, cut_to, known_lengths, same_rows

Transform = Callable[..., Any]
# How many samples are tried, beside the shortest, to see that a transform leaves lengths alone.
_TRIED = 3


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

    @cached_property
    def lengths(self) -> SampleLengths | None:
        """How long samples are without padding; None where all are alike."""
        transform = self.decoder.transform
        return transformed_lengths(self.decoder.name, transform, known_lengths(self.split), lambda k: self.split[k][0])

    def stored(self, indices: Indices) -> list[bytes]:
        """Samples as they are stored."""
        return self.split.stored(indices)

    def labels(self, indices: Indices) -> LabelTree:
        """The labels of samples."""
        return self.split.labels(indices)


def transformed_lengths(
    name: str, transform: Transform, known: SampleLengths | None, sample: Callable[[int], Any]
) -> SampleLengths | None:
    """The lengths of samples after their transform: those before it, if it makes of a shorter sample the same, shorter.

    That is tried. ``sample`` is the one with a number, with padding. None where the transform needs all of it.
    """
    if known is None:
        return None
    tried = {int(row) for row in known.table.argmin(axis=0)} | set(range(min(_TRIED, len(known.table))))
    return known if all(_is_cut_alike(name, transform, known, number, sample(number)) for number in tried) else None


def _is_cut_alike(name: str, transform: Transform, known: SampleLengths, number: int, padded: Any) -> bool:
    """Whether a transform and a cut to a sample's own lengths give the same in either order."""
    if not isinstance(padded, Tensor):
        return False
    own, options = known.longest([number]), {"seed": 0} if has_parameter(transform, "seed") else {}
    short = cut_to(padded[None], known.inputs, own)[0]
    try:
        whole, cut = (call_user(name, "transform", transform, each.clone(), **options) for each in (padded, short))
    except InputError:
        return False
    if not isinstance(whole, Tensor) or not isinstance(cut, Tensor):
        return False
    places = [each.axis - 1 for each in known.inputs]
    if any(whole.dim() <= place or whole.shape[place] != padded.shape[place] for place in places):
        return False
    return same_rows(cut_to(whole[None], known.inputs, own), cut[None])
