"""How far a plan may be from the best possible, in one line."""

from __future__ import annotations

from typing import assert_never

from palmette.cli.show.console import carbon, console, energy, joule_seconds, time
from palmette.spec.goal import QUANTITIES, known_quantity

_FAR = 10.0  # times the bound: beyond, a percentage says nothing


def show_gap(goal: str, value: float, lower_bound: float) -> None:
    """Print by how much the value of a plan may be above the best possible."""
    console().print(gap(goal, value, lower_bound))


def gap(goal: str, value: float, lower_bound: float) -> str:
    """The line: by how much the value may be above the best possible."""
    if value <= lower_bound * (1 + 1e-4):
        return f"{goal}: the best possible"
    bound = _format(goal, lower_bound)
    if value > _FAR * lower_bound:
        return f"{goal}: {_format(goal, value)}; no lower bound above {bound}, so the best possible is not known"
    return f"{goal}: at most {value / lower_bound - 1:.0%} above the best possible, which is at least {bound}"


def _format(goal: str, value: float) -> str:
    if goal not in QUANTITIES:  # a weighted sum has no unit
        return f"{value:.3g}"
    quantity = known_quantity(goal)
    match quantity:
        case "time":
            return time(value)
        case "energy":
            return energy(value)
        case "power":
            return f"{value:.3g} W"
        case "edp":
            return joule_seconds(value)
        case "cost":
            return f"{value:.3g}"
        case "carbon":
            return carbon(value)
    assert_never(quantity)
