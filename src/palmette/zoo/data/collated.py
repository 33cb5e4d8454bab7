"""Samples of varying length that a user's ``collate`` pads, as PyTorch's ``collate_fn`` does.

Plans, profiles and messages know one size of a sample. So each is collated in the company of the longest of the data
set, and its row is taken: what travels and is computed on is the sample, padded as the user's own function pads it.

    collate([sample, longest])  ──▶  inputs 2 × 9, targets 2 × 9  ──▶  row 0: 9, 9      the same shape for all

Where inputs and targets, or several tensors, are longest in different samples, all of these are the company.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from palmette.zoo.data.base import data_error, format_shape
from palmette.zoo.data.custom_source import Sources, call_user, find_sources, has_stored
from palmette.zoo.recipes.recipe import Collate, Recipe

_AT_ONCE = 64
# How many samples are tried together, and one by one, to see that each has a row of its own.
_TRIED = 3

_longest: WeakKeyDictionary[Recipe, list[tuple[int, int]]] = WeakKeyDictionary()


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
    if recipe not in _longest:
        _longest[recipe] = collate.longest(given)
    company = [collate.fetched(given[part], number) for part, number in _longest[recipe]]
    made = [CollatedItems(each, collate, company) for each in given]
    made[0].refuse_mixed_rows()
    return Sources(*made)


class CollatedItems:
    """A map-style data set whose items all have the shape of the longest."""

    def __init__(self, source: Any, collate: _Collate, company: Sequence[Any]) -> None:
        self._source, self._collate, self._company = source, collate, list(company)
        self.vocabulary, self.classes = (getattr(source, each, None) for each in ("vocabulary", "classes"))

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, number: int) -> Any:
        return _row(self._collate([self._collate.fetched(self._source, number), *self._company]), 0)

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

    def longest(self, sources: Sequence[Any]) -> list[tuple[int, int]]:
        """The samples that are longest in some tensor and axis, by the number of their source and their own."""
        best: dict[tuple[int, int], tuple[int, tuple[int, int]]] = {}
        numbers = [(part, number) for part, source in enumerate(sources) for number in range(len(source))]
        for begin in range(0, len(numbers), _AT_ONCE):
            some = numbers[begin : begin + _AT_ONCE]
            items = [self.fetched(sources[part], number) for part, number in some]
            if _grows(best, self(items)):
                for where, item in zip(some, items, strict=True):
                    for place, size in _sizes(self([item])):
                        best[place] = max(best.get(place, (-1, where)), (size, where), key=operator.itemgetter(0))
        return sorted({where for _, where in best.values()})

    def fetched(self, source: Any, number: int) -> Any:
        """An item of a data set, whatever it is."""
        return call_user(f"{self.name}[{number}]", "fetching it", operator.getitem, source, number)


def _grows(best: Mapping[tuple[int, int], tuple[int, Any]], made: Any) -> bool:
    """Whether a batch is longer than the longest so far, in any tensor and axis."""
    return any(place not in best or size > best[place][0] for place, size in _sizes(made))


def _sizes(made: Any) -> Iterable[tuple[tuple[int, int], int]]:
    """The lengths of a batch's rows, by tensor and axis; a tensor of numbers has one of 1."""
    for k, tensor in enumerate(_tensors(made)):
        yield from (((k, axis), size) for axis, size in enumerate((1, *tensor.shape[1:])))


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


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)
