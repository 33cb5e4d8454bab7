"""Sizes in a traced graph as functions of what goes into it.

A graph is run with batches of several sizes and, where lengths vary, of several lengths. A size that was measured in
these runs is written as

    a + b·samples + c·length + d·samples·length

where the length is one of a network's inputs or, in one of its parts, of any tensor that enters the part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from palmette.zoo.capture.bundle import Bundle, ModuleInput

BATCHES = (2, 3, 5)
# Behind those of the first runs, which are as long as the example: (samples, how much shorter).
SHORTER = ((2, 1), (3, 1), (5, 2))


class TrialRun(NamedTuple):
    """A run of a graph: what goes in, how many samples, and how long they are in each length that varies."""

    inputs: Bundle
    samples: int
    lengths: dict[int, int]


def trial_runs(example: ModuleInput) -> list[TrialRun]:
    """The runs in which sizes are measured."""
    kinds = [(samples, 0) for samples in BATCHES] + (list(SHORTER) if example.varying else [])
    made = [ModuleInput(example.batch(*kind), varying=example.varying) for kind in kinds]
    return [TrialRun(each.tensors, len(each.tensors[0]), each.lengths) for each in made]


class Size(NamedTuple):
    """A size: the coefficients of 1, samples, length, samples·length; ``length`` says which, None if none."""

    constant: int
    samples: int
    length: int = 0
    both: int = 0
    which: Any = None


def fit_size(
    values: Sequence[int], samples: Sequence[int], lengths: Iterable[tuple[Any, Sequence[int]]] = ()
) -> Size | None:
    """A size that was measured in runs with so many samples, and so long; None where it is no such function.

    ``lengths`` are candidates to choose from, by name.
    """
    ones = [1] * len(values)
    found = _solved(values, [ones, samples])
    if found is not None:
        return Size(*found)
    for name, measured in lengths:
        both = [a * b for a, b in zip(samples, measured, strict=True)]
        found = _solved(values, [ones, samples, measured, both])
        if found is not None:
            return Size(*found)._replace(which=name)
    return None


def _solved(values: Sequence[int], columns: Sequence[Sequence[int]]) -> list[int] | None:
    """Whole coefficients of columns that add up to the values, if there are any."""
    matrix = np.array(columns, dtype=np.float64).T
    solved = np.linalg.lstsq(matrix, np.array(values, dtype=np.float64), rcond=None)[0]
    whole = np.rint(solved)
    return [int(each) for each in whole] if np.array_equal(matrix @ whole, values) else None
