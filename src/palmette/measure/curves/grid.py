"""The trainings of a collection: K1, F1, K2 and F2 of Section VI-A of PACT, for several seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from palmette.errors import ArgumentFault, InputError
from palmette.spec.curves import Key

FIRST, OTHERS = "gold", ("silver", "bronze")


@dataclass(frozen=True, kw_only=True)
class CurveGrid:
    """When to prune, in epochs (``k1``, ``k2``), which fraction of what is left (``f1``, ``f2``), for how many seeds.

    The last set of nodes trains for ``last`` epochs.
    """

    seeds: int
    k1: tuple[int, ...]
    k2: tuple[int, ...]
    f1: tuple[float, ...]
    f2: tuple[float, ...]
    last: int

    def __post_init__(self) -> None:
        wrong = [ArgumentFault("seeds", self.seeds, "expected 1 or more")] if self.seeds < 1 else []
        for option, epochs in (("k1", self.k1), ("k2", self.k2), ("last", (self.last,))):
            wrong += [ArgumentFault(option, k, "expected whole epochs, 1 or more") for k in epochs if k < 1]
        for option, fractions in (("f1", self.f1), ("f2", self.f2)):
            outside = [f for f in fractions if not 0 <= f < 1]
            wrong += [ArgumentFault(option, f, "expected a fraction from 0 to below 1") for f in outside]
        if not self.k1 or not self.f1:
            wrong.append(ArgumentFault("k1, f1", "none", "expected at least one each"))
        if wrong:
            raise InputError(wrong)

    @property
    def most_pruned(self) -> float:
        """The largest fraction of all parameters that is removed."""
        return round(1 - (1 - max(self.f1)) * (1 - max(self.f2, default=0.0)), 6)

    def branches(self) -> Iterator[Branch]:
        """All second phases, seed by seed."""
        for seed in range(self.seeds):
            for k1 in self.k1:
                for f1 in self.f1:
                    for nodes in OTHERS:
                        yield Branch(self, seed, k1, f1, nodes)


@dataclass(frozen=True)
class Branch:
    """The trainings that continue from K1 epochs of a seed's trunk, pruned by F1, on one other set of nodes."""

    grid: CurveGrid
    seed: int
    k1: int
    f1: float
    nodes: str

    @property
    def third(self) -> str:
        """The set that a second pruning hands over to."""
        return next(other for other in OTHERS if other != self.nodes)

    @property
    def pruning(self) -> float:
        """The fraction of all parameters that the first pruning removes."""
        return round(self.f1, 6)

    def twice(self, f2: float) -> float:
        """The fraction of all parameters that both prunings remove."""
        return round(1 - (1 - self.f1) * (1 - f2), 6)

    def once_key(self) -> Key:
        """The key of the curve with one pruning."""
        return (self.seed, (FIRST, 0.0, self.k1), (self.nodes, self.pruning, self.grid.last))

    def twice_key(self, k2: int, f2: float) -> Key:
        """The key of a curve with two prunings."""
        second = (self.nodes, self.pruning, k2)
        return (self.seed, (FIRST, 0.0, self.k1), second, (self.third, self.twice(f2), self.grid.last))

    def every_key(self) -> list[Key]:
        """The keys of all its curves."""
        return [self.once_key(), *(self.twice_key(k2, f2) for k2 in self.grid.k2 for f2 in self.grid.f2)]
