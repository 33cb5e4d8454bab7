"""What a figure is: a number in the JSON that a benchmark prints, and what it should be.

``find`` is the way to it: keys with slashes between them, where ``*`` stands for all there are, ``a|b`` for two keys,
and ``[model=lenet5;epochs=5]`` for those of a list that say so. Of several values the worst counts, that is, the one
farthest from the aim; where there is no aim, the least. ``over`` is the way to what it is a share of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Unit = Literal["share", "seconds", "number"]
Sense = Literal["at most", "at least"]


class Aim(NamedTuple):
    """What a figure should be."""

    sense: Sense
    value: float

    def worst(self, values: list[float]) -> float:
        """Of several values the one farthest from it."""
        return max(values) if self.sense == "at most" else min(values)

    def holds(self, value: float) -> bool:
        """Whether a value reaches it."""
        return value <= self.value if self.sense == "at most" else value >= self.value


class Figure(NamedTuple):
    """A number that a benchmark prints; one without an aim is told in the documentation and claims nothing."""

    name: str
    find: str
    unit: Unit
    aim: Aim | None = None
    over: str | None = None

    def value(self, printed: Any) -> float | None:
        """What it is in the output of its benchmark; None where that has none, as in a quick case."""
        found = list(_found(printed, self.find.split("/")))
        if not found:
            return None
        whole = 1.0 if self.over is None else next(_found(printed, self.over.split("/")))
        return (min(found) if self.aim is None else self.aim.worst(found)) / whole


@dataclass(frozen=True)
class Benchmark:
    """A command, what it may take, and the figures that it gives. Its quick case takes half a minute at most.

    One that needs what the summary cannot give it (``elsewhere``) is never run by it; what it printed can be taken.
    """

    name: str
    budget_s: float
    figures: tuple[Figure, ...]
    words: tuple[str, ...] = ()
    has_quick: bool = True
    told: tuple[Figure, ...] = ()
    elsewhere: bool = False

    @property
    def all_figures(self) -> tuple[Figure, ...]:
        """Those with an aim, then those that are told beside them."""
        return (*self.figures, *self.told)

    def command(self, *, quick: bool) -> str:
        """How a person calls it."""
        return " ".join(["python -m", f"benchmarks.{self.name}", *(["--quick"] if quick else self.words)])


def _found(printed: Any, way: list[str]) -> Iterator[float]:
    """The numbers that a way leads to."""
    if not way:
        if printed is not None:
            yield float(printed)
        return
    for each in _next(printed, way[0]):
        yield from _found(each, way[1:])


def _next(printed: Any, step: str) -> Iterator[Any]:
    """What one step of a way leads to."""
    if step == "*":
        yield from printed.values() if isinstance(printed, dict) else printed or ()
    elif step.startswith("["):
        wanted = dict(each.split("=", 1) for each in step[1:-1].split(";"))
        yield from (each for each in printed if all(_said(each.get(key)) == said for key, said in wanted.items()))
    elif isinstance(printed, dict):
        yield from (printed[key] for key in step.split("|") if key in printed)


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
