"""Several data sets as one, such as the held-out data of several owners.

Each part has a decoder of its own, so a stored sample starts with the number of its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from palmette.zoo.data.base import DataSet, DataSplit, Decoder, Indices, LabelTree, data_error

PART_BYTES = 4


@dataclass(frozen=True, eq=False)
class ConcatDecoder:
    """Decodes each sample as the part that it comes from does."""

    decoders: tuple[Decoder, ...]

    def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Tensor:
        """Inputs, in the order of ``stored``.

        Raises:
            InputError: a sample is of no part, or not what its part stores.
        """
        which = torch.tensor([self._part(each) for each in stored], dtype=torch.long)
        places = _places(which)
        inputs = [self._decode_part(part, at.tolist(), stored, seeds) for part, at in places.items()]
        return _in_order(inputs, places)

    def _decode_part(
        self, part: int, places: list[int], stored: Sequence[bytes], seeds: Sequence[int] | None
    ) -> Tensor:
        chosen = None if seeds is None else [seeds[k] for k in places]
        return self.decoders[part].decode([stored[k][PART_BYTES:] for k in places], chosen)

    def _part(self, stored: bytes) -> int:
        part = int.from_bytes(stored[:PART_BYTES], "little")
        if part >= len(self.decoders):
            raise data_error("a stored sample", f"is of part {part}; expected one below {len(self.decoders)}")
        return part


@dataclass(frozen=True, eq=False)
class ConcatSplit:
    """Several splits, one after the other."""

    splits: Sequence[DataSplit]

    def __len__(self) -> int:
        return sum(map(len, self.splits))

    def __getitem__(self, index: int) -> tuple[Tensor, LabelTree]:
        inputs, labels = self.batch([index])
        return inputs[0], pytree.tree_map(lambda tensor: tensor[0], labels)

    def batch(self, indices: Indices) -> tuple[Tensor, LabelTree]:
        """Inputs and labels, in the order of ``indices``."""
        which, within = self._find(indices)
        places = _places(which)
        found = [self.splits[part].batch(within[at]) for part, at in places.items()]
        inputs, labels = zip(*found, strict=True)
        return _in_order(inputs, places), _labels_in_order(labels, places)

    @property
    def sample_bytes(self) -> float:
        """The mean size of a stored sample, with the number of its part."""
        return PART_BYTES + sum(len(split) * split.sample_bytes for split in self.splits) / len(self)

    @property
    def decoder(self) -> ConcatDecoder:
        """What turns samples of all parts into inputs."""
        return ConcatDecoder(tuple(split.decoder for split in self.splits))

    @property
    def stores_labels(self) -> bool:
        """Whether a part stores labels with its samples."""
        return any(split.stores_labels for split in self.splits)

    def stored(self, indices: Indices) -> list[bytes]:
        """Stored samples, each after the number of its part."""
        which, within = self._find(indices)
        return [
            part.to_bytes(PART_BYTES, "little") + self.splits[part].stored([index])[0]
            for part, index in zip(which.tolist(), within.tolist(), strict=True)
        ]

    def labels(self, indices: Indices) -> LabelTree:
        """The labels, in the order of ``indices``."""
        which, within = self._find(indices)
        places = _places(which)
        return _labels_in_order([self.splits[part].labels(within[at]) for part, at in places.items()], places)

    def _find(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """The part of each sample, and its number there."""
        at = torch.as_tensor(indices, dtype=torch.long)
        sizes = torch.tensor([len(split) for split in self.splits])
        ends = sizes.cumsum(0)
        which = torch.bucketize(at, ends, right=True)
        return which, at - (ends - sizes)[which]


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


def _places(which: Tensor) -> dict[int, Tensor]:
    """Where the samples of each part stand; the first part where there are no samples."""
    parts = sorted(set(which.tolist())) or [0]
    return {part: (which == part).nonzero().flatten() for part in parts}


def _labels_in_order(found: Sequence[LabelTree], places: dict[int, Tensor]) -> LabelTree:
    if found[0] is None:
        return None
    columns = zip(*(pytree.tree_leaves(labels) for labels in found), strict=True)
    return pytree.tree_unflatten([_in_order(each, places) for each in columns], pytree.tree_structure(found[0]))


def _in_order(found: Sequence[Tensor], places: dict[int, Tensor]) -> Tensor:
    """Rows found part by part, in the order that was asked for."""
    return torch.cat(list(found))[torch.argsort(torch.cat(list(places.values())))]
