"""The goal: what to minimise, and under which deadline and loss.

``Spending`` is what a plan takes, ``value`` the one place that makes a quantity of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self, assert_never, get_args

from palmette.errors import ArgumentFault, InputError, expected_name
from palmette.spec.document import MOST

Quantity = Literal["time", "energy", "power", "edp", "cost", "carbon"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
_TERM = re.compile(r"(?:([0-9.eE+-]+)\s*\*\s*)?([A-Za-z]+)")


class Spending(NamedTuple):
    """What an iteration, an epoch or a training takes; None where it is not known.

    ``cost`` is money in the currency of the cluster's prices, ``carbon_g`` grams of carbon dioxide.
    """

    time_s: float
    energy_j: float | None
    cost: float | None = None
    carbon_g: float | None = None

    def times(self, many: float) -> Self:
        """So many of them."""
        return self._replace(
            time_s=many * self.time_s,
            energy_j=None if self.energy_j is None else many * self.energy_j,
            cost=None if self.cost is None else many * self.cost,
            carbon_g=None if self.carbon_g is None else many * self.carbon_g,
        )

    def plus(self, other: Spending) -> Self:
        """Both of them, one after the other."""
        return self._replace(
            time_s=self.time_s + other.time_s,
            energy_j=_added(self.energy_j, other.energy_j),
            cost=_added(self.cost, other.cost),
            carbon_g=_added(self.carbon_g, other.carbon_g),
        )


def _added(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What to minimise: one quantity, or a weighted sum of several, each over its own best value."""

    weights: Mapping[Quantity, float] = field(default_factory=lambda: {"time": 1.0})
    deadline_s: float | None = None
    iteration_deadline_s: float | None = None
    loss: float | None = None
    units: Mapping[Quantity, float] | None = None
    """What quantities of a weighted sum are divided by, where it is known already; else each one's best value."""

    def __post_init__(self) -> None:
        wrong = list(self._faults())
        if wrong:
            raise InputError(wrong)

    def _faults(self) -> Iterator[ArgumentFault]:
        if not self.weights:
            yield ArgumentFault("weights", dict(self.weights), "expected at least one quantity")
        for name, weight in self.weights.items():
            known_quantity(name)
            if not 0 < weight < math.inf:
                yield ArgumentFault("weights", weight, "expected a weight above 0")
        for argument in ("deadline_s", "iteration_deadline_s", "loss"):
            limit = getattr(self, argument)
            if limit is not None and not limit > 0:
                yield ArgumentFault(argument, limit, "expected a number above 0")
            elif limit is not None and limit > MOST:
                yield ArgumentFault(argument, limit, f"expected a number of at most {MOST:g}")

    @property
    def single(self) -> Quantity | None:
        """The one quantity to minimise; None for a weighted sum."""
        return next(iter(self.weights)) if len(self.weights) == 1 else None

    @property
    def needs_energy(self) -> bool:
        """Whether it weighs a quantity that is not known without the power of the nodes."""
        return any(map(_needs_energy, self.weights))

    def __str__(self) -> str:
        return self.single or "+".join(f"{weight:g}*{name}" for name, weight in self.weights.items())


def known_quantity(name: str) -> Quantity:
    """The quantity of this name.

    Raises:
        InputError: there is none; names the nearest.
    """
    if name not in QUANTITIES:
        raise InputError(ArgumentFault("goal", name, expected_name(name, "goal", QUANTITIES)))
    return name


def parse_weights(text: str) -> dict[Quantity, float]:
    """The weights in ``time``, ``edp`` or ``0.3*time+0.7*energy``.

    Raises:
        InputError: it is none of these.
    """
    weights: dict[Quantity, float] = {}
    for part in re.split(r"(?<!\d[eE])\+", text):
        weight, name = _term(part.strip(), text)
        if name in weights:
            raise InputError(ArgumentFault("goal", text, f"{name} stands there twice; expected it once"))
        weights[name] = weight
    return weights


def _term(part: str, text: str) -> tuple[float, Quantity]:
    match = _TERM.fullmatch(part)
    if match is None:
        expected = f"expected {'|'.join(QUANTITIES)} or a weighted sum such as 0.3*time+0.7*energy"
        raise InputError(ArgumentFault("goal", text, expected))
    name = known_quantity(match[2])
    try:
        weight = float(match[1] or 1)
    except ValueError:
        weight = math.nan
    if not (0 < weight < math.inf):
        raise InputError(ArgumentFault("goal", match[1], "expected a weight above 0"))
    return weight, name


def is_monotone(quantity: Quantity) -> bool:
    """Whether a quantity never falls where what nodes spend grows."""
    match quantity:
        case "time" | "energy" | "edp" | "cost" | "carbon":
            return True
        case "power":
            return False
    assert_never(quantity)


def _needs_energy(quantity: Quantity) -> bool:
    match quantity:
        case "time" | "cost":
            return False
        case "energy" | "power" | "edp" | "carbon":
            return True
    assert_never(quantity)


def value(
    quantity: Quantity,
    time_s: float,
    energy_j: float | None,
    cost: float | None = None,
    carbon_g: float | None = None,
) -> float:
    """A quantity of what a plan spends: seconds, joules, watts, joule-seconds, money or grams; infinite if unknown."""
    joules = math.inf if energy_j is None else energy_j
    match quantity:
        case "time":
            return time_s
        case "energy":
            return joules
        case "power":
            return joules / time_s if time_s else 0.0
        case "edp":
            return joules * time_s
        case "cost":
            return math.inf if cost is None else cost
        case "carbon":
            return math.inf if carbon_g is None else carbon_g
    assert_never(quantity)
