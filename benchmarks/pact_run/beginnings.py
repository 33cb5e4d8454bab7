"""Trainings of a seed that share their beginnings: what several schedules begin with is trained once.

    gold ─ gold ─ gold ─┬─ silver ─ silver ─┬─ bronze ─ …
                        │                   └─ silver ─ …
                        └─ gold ─ …

The loss after every epoch of every schedule is kept, the networks of the ``KEPT`` that were used last; where one is
needed again that was given up, it is trained again from the nearest that is left.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from benchmarks.pact_run.replay import Trainee, fresh
from palmette.spec.problem import Pair
from palmette.zoo.data import DataSplit

KEPT = 64
Epochs = tuple[Pair, ...]
"""The pair of each epoch."""


class Beginnings:
    """The losses of schedules of a seed, by training in one process."""

    def __init__(self, parts: dict[str, DataSplit], seed: int) -> None:
        self._parts, self._seed = parts, seed
        self._losses: dict[Epochs, float] = {}
        self._trainees: OrderedDict[Epochs, Trainee] = OrderedDict()

    def loss(self, epochs: Epochs) -> float:
        """The loss of the last of these epochs."""
        if epochs not in self._losses:
            for length in range(
                len(epochs) - 1, 0, -1
            ):  # whatever this begins with is used now, above all what is shared
                if epochs[:length] in self._trainees:
                    self._trainees.move_to_end(epochs[:length])
            self._trained(epochs)
        return self._losses[epochs]

    def losses(self, pairs: Sequence[Pair]) -> list[float]:
        """The loss of each of these epochs."""
        return [self.loss(tuple(pairs[: at + 1])) for at in range(len(pairs))]

    def _trained(self, epochs: Epochs) -> Trainee:
        if not epochs:
            return fresh(self._seed)
        found = self._trainees.pop(epochs, None)
        if found is None:
            model, nodes = epochs[-1]
            found = self._trained(epochs[:-1]).twin()
            self._losses[epochs] = found.epoch(float(model), self._parts[nodes])
        self._trainees[epochs] = found
        if len(self._trainees) > KEPT:
            self._trainees.popitem(last=False)
        return found
