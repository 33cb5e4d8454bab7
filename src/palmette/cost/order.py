"""The order in which a node computes its microbatches: as they become ready, or in turns, backward whole or in halves.

Microbatches are instances of the same layers on the same node. With ``order: 1f1b``, the last node of a pipeline goes
back as soon as it has gone forward; one that is n instances before the root goes forward n times more, and then in
turns. So it holds the activations of at most n + 1 microbatches, where ``fifo`` may hold those of all:

    first of three   F F F B F B F B B B
    second           · F F B F B F B F B B
    last             · · F B F B F B F B F B

With ``order: zero-bubble`` B is the gradient of the input alone (``halves``). That of the weights, W, follows the B of
as many microbatches later as there are instances before: a node waits the longer for its first microbatch the further
it is from the sources, and can catch up as much of W when nothing else is left. So all nodes of a pipeline keep the
activations of as many microbatches as the first:

    first of three   F F F B F B F B B B                  B is whole
    second           · F F B F B W F B W F B W B W W
    last             · · F B F B F B W F B W F B W W W

Microbatches do not merge, and are as far from their roots as the others on their node. Where that is not so, or where
all forward passes have to be known before any backward one (a batch norm over the whole batch, or a divisor of the loss
that varies), or where a pass would wait for itself, there is no such order, and calls stay first come, first served.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import assert_never

from palmette.cost.steps import Kind, Steps
from palmette.spec.plan import Phase

_ALL_BEFORE_BACKWARD = {Kind.COMBINE, Kind.DIVISOR}
_PASSES = {
    Kind.FORWARD: Kind.FORWARD,
    Kind.RECOMPUTE: Kind.BACKWARD,
    Kind.BACKWARD: Kind.BACKWARD,
    Kind.BACKWARD_INPUT: Kind.BACKWARD,
    Kind.BACKWARD_WEIGHTS: Kind.BACKWARD_WEIGHTS,
}
"""The pass that a call is a part of; what is before an instance waits for its backward, not for that of its weights."""


def microbatches(phase: Phase) -> list[list[int]]:
    """The instances of the same layers on the same node, in the order of their roots in the plan."""
    groups: dict[tuple[str, tuple[int, int]], list[int]] = {}
    for k, instance in enumerate(phase.instances):
        groups.setdefault((instance.node, instance.layers), []).append(k)
    match phase.order:
        case "fifo":
            return list(groups.values())
        case "1f1b" | "zero-bubble":
            roots = [root for root, _ in _ways_up(phase)]
            return [sorted(group, key=lambda k: roots[k]) for group in groups.values()]
        case unknown:
            assert_never(unknown)


def in_flight(phase: Phase) -> dict[int, int]:
    """How many microbatches of each group, by its first, have gone forward and not back, at most.

    Gradients of weights may still wait. Groups that are not there may have all of theirs in flight.
    """
    return _ahead(phase) if takes_turns(phase) else {}


def delays(phase: Phase) -> list[int]:
    """How many microbatches go back before the gradients of the weights of one follow: as many as are before it."""
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    before = [0] * len(phase.instances)
    for k in sorted(range(len(before)), key=lambda k: phase.instances[k].layers[0]):
        into = phase.instances[k].into
        if into is not None:
            before[index[into]] = max(before[index[into]], before[k] + 1)
    return before


def takes_turns(phase: Phase) -> bool:
    """Whether the phase asks for an order, and its tree leaves one."""
    match phase.order:
        case "fifo":
            return False
        case "1f1b" | "zero-bubble":
            return phase.batch_norm != "whole" and _has_turns(phase) and _is_possible(phase)
        case unknown:
            assert_never(unknown)


def _has_turns(phase: Phase) -> bool:
    """Whether the microbatches on each node have roots of their own, all as far away."""
    ways = _ways_up(phase)
    return all(
        len({ways[k][0] for k in group}) == len(group) and len({ways[k][1] for k in group}) == 1
        for group in microbatches(phase)
    )


def _ahead(phase: Phase) -> dict[int, int]:
    """How often each group, by its first instance, goes forward before it goes back.

    That is as far as its root is away; less where what feeds it has to go back in between, as one that feeds the groups
    of several nodes in turns does.
    """
    ways, feeders, found = _ways_up(phase), _feeders(phase), dict[int, int]()
    places: dict[int, tuple[int, int]] = {}  # the group of each instance, and its place in there
    for group in sorted(microbatches(phase), key=lambda group: phase.instances[group[0]].layers[0]):
        places |= {number: (group[0], place) for place, number in enumerate(group)}
        ahead = min(len(group), ways[group[0]][1])
        while ahead > 1 and not all(
            _passes(found, places[one], places[other])
            for first, last in zip(group, group[ahead - 1 :], strict=False)
            for one in feeders[first]
            for other in feeders[last]
        ):
            ahead -= 1
        found[group[0]] = ahead
    return found


def _passes(ahead: Mapping[int, int], one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether an instance may go forward before another of its group goes back; those of other groups may."""
    return one[0] != other[0] or other[1] - one[1] < ahead[one[0]]


def _feeders(phase: Phase) -> list[list[int]]:
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    found: list[list[int]] = [[] for _ in phase.instances]
    for k, instance in enumerate(phase.instances):
        if instance.into is not None:
            found[index[instance.into]].append(k)
    return found


def _is_possible(phase: Phase) -> bool:
    """Whether no pass waits for itself when all groups take turns."""
    before: dict[tuple[int, Kind], list[tuple[int, Kind]]] = {}
    for k, feeders in enumerate(_feeders(phase)):
        before[k, Kind.FORWARD] = [(each, Kind.FORWARD) for each in feeders]
        before.setdefault((k, Kind.BACKWARD), []).append((k, Kind.FORWARD))
        for each in feeders:
            before.setdefault((each, Kind.BACKWARD), []).append((k, Kind.BACKWARD))
    ahead = _ahead(phase)
    for group in microbatches(phase):
        turns = [key for key in _in_turns(group, ahead[group[0]], 0) if key[1] is not Kind.BACKWARD_WEIGHTS]
        for one, other in itertools.pairwise(turns):
            before[other].append(one)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True


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
    calls, ahead, delayed = _calls(steps), _ahead(phase), delays(phase)
    for group in microbatches(phase):
        order = _in_turns(group, ahead[group[0]], max(delayed[k] for k in group))
        turns = [calls[key] for key in order if key in calls]
        for before, after in itertools.pairwise(turns):
            steps[after[0]].after = [*steps[after[0]].after, before[-1]]


def _calls(steps: Steps) -> dict[tuple[int, Kind], list[int]]:
    """The calls of each instance in each of its passes."""
    found: dict[tuple[int, Kind], list[int]] = {}
    for number, step in enumerate(steps):
        if step.kind in _PASSES:
            found.setdefault((step.instance, _PASSES[step.kind]), []).append(number)
    return found


def _in_turns(group: list[int], ahead: int, delay: int) -> Iterator[tuple[int, Kind]]:
    """The passes of microbatches: some forward, then one backward and one forward in turns, then the rest backward.

    The gradients of the weights come behind the backward of so many microbatches later.
    """
    for number in group[:ahead]:
        yield number, Kind.FORWARD
    for k, number in enumerate(group):
        yield number, Kind.BACKWARD
        if k >= delay:
            yield group[k - delay], Kind.BACKWARD_WEIGHTS
        if k + ahead < len(group):
            yield group[k + ahead], Kind.FORWARD
    for number in group[max(0, len(group) - delay) :]:
        yield number, Kind.BACKWARD_WEIGHTS
