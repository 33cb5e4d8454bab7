"""Samples of varying length that a user's ``collate`` pads, as PyTorch's ``collate_fn`` does.

Each is collated in the company of the longest of the data set, and its row is taken, so that all are stored in one
shape, padded as the user's own function pads it.

    collate([sample, longest])  ──▶  inputs 2 × 9, targets 2 × 9  ──▶  row 0: 9, 9      the same shape for all

Where inputs and targets, or several tensors, are longest in different samples, all of these are the company. What is
computed on is cut to the longest of its batch again (``zoo.lengths``), if that gives what the function itself makes of
such a batch.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from palmette.zoo.data.base import data_error, format_shape
from palmette.zoo.data.custom_source import Sources, call_user, fetched_pair, find_sources, has_stored
from palmette.zoo.data.length_scan import LengthScan, padded_axes, scan
from palmette.zoo.lengths import SampleLengths, cut_to, same_rows
from palmette.zoo.recipes.recipe import Collate, Recipe

_AT_ONCE = 64
# How many samples are tried together, and one by one, to see that each has a row of its own.
_TRIED = 3

_known: WeakKeyDictionary[Recipe, _Known] = WeakKeyDictionary()


def recipe_sources(name: str, recipe: Recipe) -> Sources:
    """The data set of a recipe, collated if the recipe says how; ``name`` is for errors.

    Raises:
        InputError: it is no data set, or its collate function cannot be used.
    """
    sources = find_sources(name, recipe.data)
    if recipe.collate is None:
        return sources
    given = [each for each in sources if each is not None]
    if any(has_stored(name, each) for each in given):
        raise data_error(name, "has stored and decode, which leave nothing to collate; expected items alone")
    collate = _Collate(name, recipe.collate)
    if recipe not in _known:
        _known[recipe] = _looked_through(collate, given)
    company = [collate.fetched(given[part], number) for part, number in _known[recipe].longest]
    lengths: Sequence[SampleLengths | None] = _known[recipe].lengths or [None] * len(given)
    return Sources(*(CollatedItems(each, collate, company, own) for each, own in zip(given, lengths, strict=True)))


class _Known(NamedTuple):
    """What looking through a recipe's data has shown: its longest samples, and how long all are, where that varies."""

    longest: list[tuple[int, int]]
    lengths: list[SampleLengths] | None


def _looked_through(collate: _Collate, given: Sequence[Any]) -> _Known:
    found = collate.scanned(given)
    longest = found.longest()
    items = CollatedItems(given[0], collate, [collate.fetched(given[part], number) for part, number in longest])
    items.refuse_mixed_rows()
    axes = padded_axes(found, items.alone, items.pair)
    lengths = None if axes is None else found.lengths(axes)
    fits = lengths is not None and items.is_cut_to_fit(lengths[0], [number for _, number in found.shortest()])
    return _Known(longest, lengths if fits else None)


class CollatedItems:
    """A map-style data set whose items all have the shape of the longest; ``lengths`` are those without padding.

    These are None where no length varies, or cutting padding off is not what the collate function does.
    """

    def __init__(
        self, source: Any, collate: _Collate, company: Sequence[Any], lengths: SampleLengths | None = None
    ) -> None:
        self._source, self._collate, self._company, self.lengths = source, collate, list(company), lengths
        self.vocabulary, self.classes = (getattr(source, each, None) for each in ("vocabulary", "classes"))

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, number: int) -> Any:
        return _row(self._collate([self._collate.fetched(self._source, number), *self._company]), 0)

    def pair(self, number: int) -> tuple[Any, Any]:
        """The inputs and targets of a sample."""
        return fetched_pair(self, number, f"{self._collate.name}[{number}]")

    def alone(self, number: int) -> tuple[Any, Any]:
        """The inputs and targets of a sample without company, as long as they are."""
        return self._collate.alone(self._source, number)

    def is_cut_to_fit(self, lengths: SampleLengths, short: Sequence[int]) -> bool:
        """Whether batches of some samples, ``short`` ones among them, are what they are here, cut to their longest."""
        first = list(range(min(_TRIED, len(self))))
        for numbers in (first, list(short), [*short[:1], *first[-1:]]):
            batch = self._collate([self._collate.fetched(self._source, number) for number in numbers])
            for row, number in enumerate(numbers):
                own = fetched_pair([_row(batch, row)], 0, f"{self._collate.name}[{number}]")
                longest = lengths.longest(numbers)
                cut = (
                    cut_to(_batch_of_one(tree), axes, longest)
                    for tree, axes in zip(self.pair(number), (lengths.inputs, lengths.targets), strict=True)
                )
                if not all(map(same_rows, map(_batch_of_one, own), cut)):
                    return False
        return True

    def refuse_mixed_rows(self) -> None:
        """Refuse a collate function that sorts samples, or makes one depend on others: they may be on other nodes.

        Raises:
            InputError: says so.
        """
        many = min(_TRIED, len(self))
        first = [self._collate.fetched(self._source, number) for number in range(many)]
        together = self._collate([*self._company, *first])
        for number in range(many):
            rows = (_row(together, len(self._company) + number), self[number])
            if not all(map(_same, *(list(_tensors(row)) for row in rows))):
                expected = "expected a row that depends on its own sample and the longest length alone"
                raise data_error(
                    self._collate.name, f"its collate gives sample {number} another row beside others; {expected}"
                )


class _Collate:
    """A user's collate function; what it returns is checked."""

    def __init__(self, name: str, function: Collate) -> None:
        self.name, self._function = name, function

    def __call__(self, items: list[Any]) -> Any:
        """Tensors with one row per item."""
        made = call_user(self.name, "its collate", self._function, items)
        for tensor in _tensors(made):
            self._refuse_other_rows(tensor, len(items))
        return made

    def _refuse_other_rows(self, found: Any, many: int) -> None:
        if not isinstance(found, Tensor):
            kind = type(found).__name__
            raise data_error(self.name, f"its collate returns a {kind}; expected tensors, in a tuple or a dict")
        if not found.dim() or len(found) != many:
            shape = format_shape(found.shape)
            raise data_error(
                self.name, f"its collate makes {shape} of {many} samples; expected {many} rows, a sample each"
            )

    def scanned(self, sources: Sequence[Any]) -> LengthScan:
        """The lengths of all samples of some sources."""
        first = [self.fetched(sources[0], number) for number in range(min(_AT_ONCE, len(sources[0])))]
        self(first)  # a function that makes no rows is refused by what it makes of many
        return scan(self.name, ((self.alone(each, number) for number in range(len(each))) for each in sources))

    def alone(self, source: Any, number: int) -> tuple[Any, Any]:
        """The inputs and targets of a sample that is collated alone."""
        made = _row(self([self.fetched(source, number)]), 0)
        return fetched_pair([made], 0, f"{self.name}[{number}]")

    def fetched(self, source: Any, number: int) -> Any:
        """An item of a data set, whatever it is."""
        return call_user(f"{self.name}[{number}]", "fetching it", operator.getitem, source, number)


def _tensors(made: Any) -> Iterator[Any]:
    """What a tree of tuples and dicts holds."""
    if isinstance(made, Mapping):
        made = tuple(made.values())
    if isinstance(made, tuple | list):
        for each in made:
            yield from _tensors(each)
    elif made is not None:
        yield made


def _row(made: Any, number: int) -> Any:
    """One sample of a batch."""
    if isinstance(made, Mapping):
        return {key: _row(each, number) for key, each in made.items()}
    if isinstance(made, tuple | list):
        return tuple(_row(each, number) for each in made)
    return None if made is None else made[number]


def _batch_of_one(tree: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor[None], tree)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)
