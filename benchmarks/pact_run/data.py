"""What data each set of nodes owns: gold most of the digits, silver some, bronze few; none belongs to two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from benchmarks.pact_run.network import INPUT_SHAPE
from palmette.zoo.data import DataSplit, load_data

SAMPLES = {"gold": 640, "silver": 256, "bronze": 128}


class Digits:
    """Some of the digits, as a map-style data set."""

    def __init__(self, part: DataSplit, numbers: Sequence[int]) -> None:
        self._part, self._numbers = part, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        inputs, labels = self._part.batch([self._numbers[index]])
        return inputs[0], int(labels[0])


def gold(train: bool) -> Digits:
    """The cloud's."""
    return _digits("gold", train)


def silver(train: bool) -> Digits:
    """The edge server's."""
    return _digits("silver", train)


def bronze(train: bool) -> Digits:
    """The phone's."""
    return _digits("bronze", train)


def _digits(nodes: str, train: bool) -> Digits:
    data = load_data("digits", INPUT_SHAPE)
    if not train:
        return Digits(data.held_out, range(len(data.held_out)))
    order = np.random.default_rng(0).permutation(len(data.train)).tolist()
    begin = sum(size for name, size in SAMPLES.items() if list(SAMPLES).index(name) < list(SAMPLES).index(nodes))
    return Digits(data.train, order[begin : begin + SAMPLES[nodes]])
