"""How far a plan may be from the best possible, in a line for people."""

from __future__ import annotations

from typing import Any, assert_never

from palmette.cli.show import console
from palmette.spec.goal import QUANTITIES
from palmette.spec.reading import energy, joule_seconds, time

_FAR = 10.0  # times the bound: a percentage says no more


def show_distance(decision: dict[str, Any]) -> None:
    """Print how far the plan of a decision is from its lower bound, where it states one."""
    if {"goal", "value", "lower_bound"} <= decision.keys():
        console().print(distance(decision["goal"], decision["value"], decision["lower_bound"]))


def distance(goal: str, value: float, least: float) -> str:
    """The line: by how much the value may be above the best possible."""
    if value <= least * (1 + 1e-4):
        return f"{goal}: the best possible"
    bound = _written(goal, least)
    if value > _FAR * least:
        return f"{goal}: {_written(goal, value)}; no bound better than {bound}, so the best possible is not known"
    return f"{goal}: at most {value / least - 1:.0%} above the best possible, which is at least {bound}"


def _written(goal: str, value: float) -> str:
    if goal not in QUANTITIES:  # a weighted sum has no unit
        return f"{value:.3g}"
    match goal:
        case "time":
            return time(value)
        case "energy":
            return energy(value)
        case "power":
            return f"{value:.3g} W"
        case "edp":
            return joule_seconds(value)
    assert_never(goal)
