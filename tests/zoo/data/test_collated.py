"""Samples of varying length become samples of one shape, padded by the user's own function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import palmette as pt
from palmette.errors import InputError
from palmette.zoo.data import recipe_data
from palmette.zoo.data.collated import recipe_sources

Pair = tuple[Tensor, Tensor]


def pairs(*sizes: tuple[int, int]) -> list[Pair]:
    """Sequences of so many tokens, and of so many others to become."""
    return [(torch.arange(1, a + 1), torch.arange(1, b + 1)) for a, b in sizes]


class Pairs(torch.utils.data.Dataset[Any]):
    """A data set of such items; counts how often it is asked."""

    vocabulary = 20

    def __init__(self, items: list[Pair]) -> None:
        self.items, self.fetched = items, 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, k: int) -> Pair:
        self.fetched += 1
        return self.items[k]


def padded(items: list[Pair], side: str = "right") -> dict[str, Tensor] | tuple[Tensor, Tensor]:
    pad = nn.utils.rnn.pad_sequence
    inputs = pad([each for each, _ in items], batch_first=True, padding_side=side)
    return inputs, pad([each for _, each in items], batch_first=True, padding_value=-100)


def recipe(train: list[Pair], held_out: list[Pair], collate: Any = padded) -> pt.Recipe:
    return pt.Recipe(model=nn.Identity, data=(Pairs(train), Pairs(held_out)), collate=collate)


def test_all_samples_have_the_length_of_the_longest_in_each_tensor() -> None:
    """The longest input, the longest target, and a longer target among those held out, are three samples."""
    given = recipe(pairs((2, 1), (5, 2), (1, 4)), pairs((1, 6), (3, 3)))
    train, held_out = recipe_sources("own", given)
    assert [tuple(map(len, train[k])) for k in range(3)] == [(5, 6)] * 3
    assert [tuple(map(len, held_out[k])) for k in range(2)] == [(5, 6)] * 2
    assert train[0][0].tolist() == [1, 2, 0, 0, 0]
    assert train[2][1].tolist() == [1, 2, 3, 4, -100, -100]


def test_padding_is_where_the_function_puts_it() -> None:
    train, _ = recipe_sources("own", recipe(pairs((2, 1), (4, 1)), pairs((1, 1)), lambda x: padded(x, "left")))
    assert train[0][0].tolist() == [0, 0, 1, 2]


def test_samples_are_stored_in_the_integers_of_their_vocabulary() -> None:
    made = recipe_data(recipe(pairs((2, 1), (4, 1)), pairs((1, 1))), "own", (4,))
    assert made.train.stored([0]) == [bytes([1, 2, 0, 0])]
    assert made.train.batch([0, 1])[0].tolist() == [[1, 2, 0, 0], [1, 2, 3, 4]]


def test_a_data_set_is_looked_through_once() -> None:
    given = recipe(pairs(*[(k % 9 + 1, 1) for k in range(200)]), pairs((1, 1)))
    recipe_sources("own", given)
    before = given.data[0].fetched
    assert before >= 200
    recipe_sources("own", given)
    assert given.data[0].fetched < before + 20


def test_a_function_that_sorts_is_refused() -> None:
    def longest_first(items: list[Pair]) -> Any:
        return padded(sorted(items, key=lambda item: -len(item[0])))

    with pytest.raises(InputError, match="its collate gives sample 0 another row beside others"):
        recipe_sources("own", recipe(pairs((2, 1), (5, 1), (3, 1)), pairs((1, 1)), longest_first))


def test_data_with_a_name_has_nothing_to_collate() -> None:
    with pytest.raises(InputError, match="data: digits: has samples of one size, and nothing to collate"):
        recipe_data(pt.Recipe(model="lenet5", data="digits", collate=padded), "digits", (3, 32, 32))
