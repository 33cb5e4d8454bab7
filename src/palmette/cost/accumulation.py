"""Gradients that accumulate over several iterations, and are exchanged once, before the update.

Between two updates replicas have nothing to tell each other: every node adds up its own gradients. So an iteration has
no exchange of gradients, nor of their norm, and all of it comes behind the last of n iterations:

    iteration │ iteration │ iteration │ push ─▶ average ─▶ pull ─▶ update │ iteration …
"""

from __future__ import annotations

from dataclasses import replace

from palmette.cost.clock import Timing
from palmette.cost.steps import Iteration, Kind, Step, Steps

UPDATING = (Kind.PUSH, Kind.AVERAGE, Kind.PULL, Kind.SQUARES, Kind.NORM, Kind.TOTAL_NORM, Kind.UPDATE)
"""What makes an update of gradients."""


def divided_at_update(steps: Steps) -> tuple[Steps, Steps]:
    """What every iteration does, and what an update does; nothing, if no message is saved by doing it apart."""
    if not any(step.kind in UPDATING and step.to is not None for step in steps):
        return steps, []
    updating = [number for number, step in enumerate(steps) if step.kind in UPDATING]
    others = [number for number, step in enumerate(steps) if step.kind not in UPDATING]
    return _selected(steps, others), _selected(steps, updating)


def _selected(steps: Steps, numbers: list[int]) -> Steps:
    """Some of the operations, which come only after others of these."""
    places = {number: place for place, number in enumerate(numbers)}
    return [_renumbered(steps[number], places) for number in numbers]


def _renumbered(step: Step, places: dict[int, int]) -> Step:
    return replace(step, after=[places[need] for need in step.after if need in places])


def with_update(made: Iteration, timing: Timing, update: Iteration, update_timing: Timing) -> tuple[Iteration, Timing]:
    """An iteration that ends with an update, as the clock has played the two."""
    many, begin_s = len(made.steps), max(timing.end_s, default=0.0)
    moved = [replace(step, after=[need + many for need in step.after]) for step in update.steps]
    start_s, end_s = ([begin_s + each for each in times] for times in (update_timing.start_s, update_timing.end_s))
    whole = made._replace(steps=[*made.steps, *moved], size_bytes=[*made.size_bytes, *update.size_bytes])
    return whole, Timing([*timing.start_s, *start_s], [*timing.end_s, *end_s])
