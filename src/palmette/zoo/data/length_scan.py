"""How long the samples of a data set are, and where padding goes: found out with the user's own collate function.

Every sample is collated alone, which gives its lengths. An axis varies if samples differ in it; axes that do not differ
from each other in any sample have one length. On which side padding is, shows where a short sample's own row is inside
the one that it has in the company of the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree

from palmette.zoo.data.base import data_error
from palmette.zoo.lengths import SampleLengths, VaryingAxis

Pair = tuple[Any, Any]
"""Inputs and targets of one sample, or of a batch."""

# Lengths below this leave nothing to try a network with.
SHORTEST_LONGEST = 3


class Place(NamedTuple):
    """An axis of one of the tensors of inputs (part 0) or targets (part 1), counted with that of the samples."""

    part: int
    tensor: int
    axis: int


@dataclass(frozen=True, eq=False)
class LengthScan:
    """The lengths of all samples, by place; a table for each source, with a row for each sample."""

    places: tuple[Place, ...]
    tables: tuple[NDArray[np.int32], ...]

    def longest(self) -> list[tuple[int, int]]:
        """The samples that are longest at some place, by the number of their source and their own."""
        where = [(part, number) for part, table in enumerate(self.tables) for number in range(len(table))]
        return sorted({where[int(row)] for row in np.concatenate(self.tables).argmax(axis=0)})

    def shortest(self) -> list[tuple[int, int]]:
        """The samples of the first source that are shortest at some place."""
        return sorted({(0, int(row)) for row in self.tables[0].argmin(axis=0)})

    def varying(self) -> list[int]:
        """The numbers of the places at which samples differ."""
        whole = np.concatenate(self.tables)
        return [k for k in range(len(self.places)) if whole[:, k].min() < whole[:, k].max()]

    def groups(self) -> dict[int, int]:
        """By the number of a place that varies, that of the first one which is as long in every sample."""
        whole, found = np.concatenate(self.tables), dict[int, int]()
        for k in self.varying():
            found[k] = next((first for first in found.values() if np.array_equal(whole[:, first], whole[:, k])), k)
        return found

    def lengths(self, axes: Sequence[Sequence[VaryingAxis]]) -> list[SampleLengths]:
        """The lengths of each source's samples, for the axes of inputs and of targets."""
        columns = list(dict.fromkeys(self.groups().values()))
        return [SampleLengths(table[:, columns], tuple(axes[0]), tuple(axes[1])) for table in self.tables]


def scan(name: str, samples: Iterable[Iterable[Pair]]) -> LengthScan:
    """The lengths of samples, each collated alone, of several sources; ``name`` is for errors.

    Raises:
        InputError: samples have different numbers of tensors or axes.
    """
    places: list[Place] | None = None
    tables = []
    for source in samples:
        rows = []
        for number, pair in enumerate(source):
            found = list(_sizes(pair))
            places = [place for place, _ in found] if places is None else places
            if [place for place, _ in found] != places:
                wrong = "its collate makes another form of it than of the first sample"
                raise data_error(f"{name}[{number}]", f"{wrong}; expected tensors with the same number of axes")
            rows.append([size for _, size in found])
        tables.append(np.array(rows, dtype=np.int32))
    return LengthScan(tuple(places or ()), tuple(tables))


def padded_axes(
    found: LengthScan, own: Callable[[int], Pair], padded: Callable[[int], Pair]
) -> list[list[VaryingAxis]] | None:
    """The axes of inputs and of targets that vary; None if none does, or padding is neither before nor behind.

    ``own`` is a sample of the first source collated alone, ``padded`` with the longest.
    """
    groups = found.groups()
    columns = {first: number for number, first in enumerate(dict.fromkeys(groups.values()))}
    longest = np.concatenate(found.tables).max(axis=0)
    if not groups or min(longest[k] for k in groups) < SHORTEST_LONGEST:
        return None
    tried = sorted({number for _, number in found.shortest()} | set(range(min(SHORTEST_LONGEST, len(found.tables[0])))))
    axes: list[list[VaryingAxis]] = [[], []]
    for (part, tensor), places in groupby(groups, key=lambda k: found.places[k][:2]):
        here = [(found.places[k].axis, columns[groups[k]]) for k in places]
        rows = [tuple(_leaves(pair[part])[tensor] for pair in (own(n), padded(n))) for n in tried]
        sides = next((each for each in _sides(len(here)) if _fits(rows, here, each)), None)
        if sides is None:
            return None
        axes[part] += [VaryingAxis(tensor, *place, side) for place, side in zip(here, sides, strict=True)]
    return axes


def _sides(many: int) -> Iterable[tuple[bool, ...]]:
    return product((False, True), repeat=many)


def _fits(rows: Sequence[tuple[Tensor, ...]], places: Sequence[tuple[int, int]], sides: Sequence[bool]) -> bool:
    """Whether rows with padding, cut to their own lengths on these sides, are the rows without."""
    for alone, padded in rows:
        cut = padded
        for (axis, _), side in zip(places, sides, strict=True):
            cut = VaryingAxis(0, axis - 1, 0, side).cut(cut, alone.shape[axis - 1])
        if not torch.equal(cut, alone):
            return False
    return True


def _sizes(pair: Pair) -> Iterable[tuple[Place, int]]:
    """The lengths of one sample, by place; a tensor of numbers has one of 1."""
    for part, tree in enumerate(pair):
        for k, tensor in enumerate(_leaves(tree)):
            yield from ((Place(part, k, axis), size) for axis, size in enumerate((1, *tensor.shape)))


def _leaves(tree: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
