"""Brute force over all schedules of a PACT problem, from its document alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

Plain = dict[str, Any]


class Played(NamedTuple):
    """A schedule, pair by pair, and what it came to."""

    pairs: tuple[tuple[str, str], ...]
    energy_j: float
    time_s: float
    loss: float


def schedules(problem: Plain, most: int = 12) -> Iterator[Played]:
    """Every schedule of up to ``most`` epochs that is in time, the empty one first."""
    runs = {(run["model"], run["nodes"]): run for run in problem["run"]}
    changes = {(tuple(change["from"]), tuple(change["to"])): change for change in problem["change"]}
    start = problem["start"]

    def grow(so_far: Played, here: tuple[str, str]) -> Iterator[Played]:
        yield so_far
        if len(so_far.pairs) == most:
            return
        for there, run in runs.items():
            change = changes.get((here, there), None if here != there else {})
            if change is None:
                continue
            losses = run.get("loss_true", run["loss_expected"])
            loss = so_far.loss + change.get("loss_true", change.get("loss_expected", 0.0))
            loss += losses[min(len(so_far.pairs), len(losses) - 1)]
            time_s = so_far.time_s + change.get("time_s", 0.0) + run["time_s"]
            energy_j = so_far.energy_j + change.get("energy_j", 0.0) + run["energy_j"]
            if time_s <= problem["deadline_s"] + 1e-9:
                yield from grow(Played((*so_far.pairs, there), energy_j, time_s, loss), there)

    yield from grow(Played((), 0.0, 0.0, start["loss"]), (start["model"], start["nodes"]))


def meeting(problem: Plain, most: int = 12) -> list[Played]:
    """The schedules that meet target and deadline."""
    return [each for each in schedules(problem, most) if each.loss <= problem["target_loss"] + 1e-9]


def least_energy_j(problem: Plain, most: int = 12) -> float:
    """The optimum; infinite if nothing meets the goal."""
    return min((each.energy_j for each in meeting(problem, most)), default=math.inf)


def least_loss(problem: Plain, most: int = 12) -> float:
    """The least loss by the deadline."""
    return min(each.loss for each in schedules(problem, most))


def changes_in(problem: Plain, pairs: tuple[tuple[str, str], ...]) -> int:
    """How often a schedule changes model or nodes."""
    row = [(problem["start"]["model"], problem["start"]["nodes"]), *pairs]
    return sum(a != b for a, b in pairwise(row))
