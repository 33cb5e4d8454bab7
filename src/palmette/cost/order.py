"""The order in which a node computes its microbatches: as they become ready, or one forward, one backward in turns.

Microbatches are instances of the same layers on the same node. With ``order: 1f1b``, the last node of a pipeline goes
back as soon as it has gone forward; one that is n instances before the root goes forward n times more, and then in
turns. So it holds the activations of at most n + 1 microbatches, where ``fifo`` may hold those of all:

    first of three   F F F B F B F B B B
    second           · F F B F B F B B
    last             · · F B F B F B

Microbatches do not merge, and are as far from their roots as the others on their node. Where that is not so, or where
all forward passes have to be known before any backward one (a batch norm over the whole batch, or a divisor of the loss
that varies), there is no such order, and calls stay first come, first served.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import assert_never

from palmette.cost.steps import Kind, Steps
from palmette.spec.plan import Phase

_ALL_BEFORE_BACKWARD = {Kind.COMBINE, Kind.DIVISOR}
_BACKWARD = (Kind.RECOMPUTE, Kind.BACKWARD)


def microbatches(phase: Phase) -> list[list[int]]:
    """The instances of the same layers on the same node, in the order of their roots in the plan."""
    groups: dict[tuple[str, tuple[int, int]], list[int]] = {}
    for k, instance in enumerate(phase.instances):
        groups.setdefault((instance.node, instance.layers), []).append(k)
    match phase.order:
        case "fifo":
            return list(groups.values())
        case "1f1b":
            roots = [root for root, _ in _ways_up(phase)]
            return [sorted(group, key=lambda k: roots[k]) for group in groups.values()]
        case unknown:
            assert_never(unknown)


def in_flight(phase: Phase, group: list[int]) -> int:
    """How many microbatches of a group have gone forward and not back, at most."""
    if not takes_turns(phase):
        return len(group)
    return min(len(group), _ways_up(phase)[group[0]][1])


def takes_turns(phase: Phase) -> bool:
    """Whether the phase asks for an order, and its tree leaves one."""
    match phase.order:
        case "fifo":
            return False
        case "1f1b":
            return phase.batch_norm != "whole" and _has_turns(phase)
        case unknown:
            assert_never(unknown)


def _has_turns(phase: Phase) -> bool:
    """Whether the microbatches on each node have roots of their own, all as far away."""
    ways = _ways_up(phase)
    return all(
        len({ways[k][0] for k in group}) == len(group) and len({ways[k][1] for k in group}) == 1
        for group in microbatches(phase)
    )


def _ways_up(phase: Phase) -> list[tuple[int, int]]:
    """For each instance the number of its root, and of the instances from it to there, both included."""
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    found: dict[int, tuple[int, int]] = {}
    for k in sorted(range(len(phase.instances)), key=lambda k: -phase.instances[k].layers[0]):
        into = phase.instances[k].into
        root, many = (k, 0) if into is None else found[index[into]]
        found[k] = (root, many + 1)
    return [found[k] for k in range(len(phase.instances))]


def add_order(steps: Steps, phase: Phase) -> None:
    """Let the calls of microbatches wait for each other, where the phase asks for an order."""
    if not takes_turns(phase) or any(step.kind in _ALL_BEFORE_BACKWARD for step in steps):
        return
    calls = _calls(steps)
    for group in microbatches(phase):
        turns = [calls[key] for key in _in_turns(group, in_flight(phase, group)) if key in calls]
        for before, after in itertools.pairwise(turns):
            steps[after[0]].after = [*steps[after[0]].after, before[-1]]


def _calls(steps: Steps) -> dict[tuple[int, bool], list[int]]:
    """The calls of each instance, forward (True) and backward."""
    found: dict[tuple[int, bool], list[int]] = {}
    for number, step in enumerate(steps):
        if step.kind is Kind.FORWARD or step.kind in _BACKWARD:
            found.setdefault((step.instance, step.kind is Kind.FORWARD), []).append(number)
    return found


def _in_turns(group: list[int], ahead: int) -> Iterator[tuple[int, bool]]:
    """The passes of microbatches: some forward, then one backward and one forward in turns, then the rest backward."""
    for number in group[:ahead]:
        yield number, True
    for k, number in enumerate(group):
        yield number, False
        if k + ahead < len(group):
            yield group[k + ahead], True
