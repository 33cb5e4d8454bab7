"""Other ways for samples to take: each edit turns a way's runs into other runs, or says that it does not apply.

An edit is made for one way and applied to it alone, or to all that look like it: with forty devices, moving the cut of
one changes little as long as all the others wait. It is applied to all samples of a way, or to a part of them, which
then go on a way of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from palmette.plan.hybrid.paths import Run, State, Way, joined, simplified
from palmette.plan.hybrid.problem import World

Runs = tuple[Run, ...]
Edit = Callable[[Way], Runs | None]
PARTS = (1.0, 0.5, 0.25, 0.1)


def look_of(way: Way, world: World) -> tuple[object, ...]:
    """What ways have in common that can be edited alike: the kind of each run's node and where it ends."""
    cluster = world.task.cluster.nodes
    return tuple(("own" if node == way.source else cluster[node].tier, last) for node, last in way.runs)


def selections(state: State, world: World) -> list[list[int]]:
    """Ways that are edited together: those that look alike, those that pass the same nodes, then each alone."""
    alike: dict[tuple[object, ...], list[int]] = {}
    nearby: dict[tuple[object, ...], list[int]] = {}
    for k, way in enumerate(state.ways):
        alike.setdefault(look_of(way, world), []).append(k)
        passed = tuple(("own" if node == way.source else node, last) for node, last in way.runs)
        nearby.setdefault((way.lane, passed), []).append(k)
    groups = [group for group in alike.values() if len(group) > 1]
    groups += [group for group in nearby.values() if len(group) > 1 and group not in groups]
    if len(groups) > 1 or (groups and len(alike) > 1):
        groups.append(list(range(len(state.ways))))
    return groups + [[k] for k in range(len(state.ways))]


def edits(way: Way, world: World) -> Iterator[Edit]:
    """Edits for a way and those that look like it: small ones first."""
    yield from _cut_edits(way, world.depth)
    near = list(dict.fromkeys([*(node for node, _ in way.runs), *world.helpers[way.source], way.source]))
    near = [node for node in near if node in world.shares]
    for k in range(len(way.runs)):
        yield from (_on(k, node) for node in near)
        if len(way.runs) > 1:
            yield _without(k)
    for cut in world.cuts:
        yield _first_at_home(cut)
        for node in near:
            yield _first_on(node, cut)
            yield _last_on(node, cut)


def _cut_edits(way: Way, depth: int) -> Iterator[Edit]:
    for k in range(len(way.runs) - 1):
        for step in (1, -1, 2, -2, 4, -4, 8, -8):
            if 0 <= way.runs[k][1] + step <= depth:
                yield _cut_at(k, way.runs[k][1] + step)


def _cut_at(k: int, last: int) -> Edit:
    def edit(way: Way) -> Runs | None:
        if k >= len(way.runs) - 1:
            return None
        before = [(node, min(end, last)) for node, end in way.runs[:k]]
        return simplified([*before, (way.runs[k][0], last), *way.runs[k + 1 :]])

    return edit


def _on(k: int, node: str) -> Edit:
    def edit(way: Way) -> Runs | None:
        if k >= len(way.runs):
            return None
        return simplified([*way.runs[:k], (node, way.runs[k][1]), *way.runs[k + 1 :]])

    return edit


def _without(k: int) -> Edit:
    """Without a run: the next one does its layers, or the one before if it is the last."""

    def edit(way: Way) -> Runs | None:
        if k >= len(way.runs) or len(way.runs) == 1:
            return None
        if k == len(way.runs) - 1:
            return simplified([*way.runs[: k - 1], (way.runs[k - 1][0], way.runs[k][1])])
        return simplified([*way.runs[:k], *way.runs[k + 1 :]])

    return edit


def _first_on(node: str, cut: int) -> Edit:
    def edit(way: Way) -> Runs | None:
        return simplified([(node, cut), *way.runs])

    return edit


def _first_at_home(cut: int) -> Edit:
    def edit(way: Way) -> Runs | None:
        return simplified([(way.source, cut), *way.runs])

    return edit


def _last_on(node: str, cut: int) -> Edit:
    """The layers after a cut on another node."""

    def edit(way: Way) -> Runs | None:
        before = [(each, min(last, cut - 1)) for each, last in way.runs]
        return simplified([*before, (node, way.runs[-1][1])])

    return edit


def edited(state: State, chosen: Sequence[int], edit: Edit, part: float, world: World) -> State | None:
    """The state with an edit applied to a part of the samples of some ways; None where it changes nothing."""
    ways: list[Way] = []
    changed = False
    for k, way in enumerate(state.ways):
        runs = edit(way) if k in chosen else None
        runs = None if runs is None else world.kept_at_home(way.source, runs)
        if runs is None or runs == way.runs or not all(node in world.shares for node, _ in runs):
            ways.append(way)
            continue
        moved = way.samples if part == 1.0 else max(1, round(part * way.samples))
        ways += [way._replace(samples=way.samples - moved), way._replace(samples=moved, runs=runs)]
        changed = True
    return state._replace(ways=joined(ways)) if changed else None


def in_lanes(state: State, k: int, lane: int) -> State | None:
    """The state with half of a way's samples on a lane of their own: one half computes while the other travels."""
    way = state.ways[k]
    half = way.samples // 2
    if not half:
        return None
    ways = [*state.ways[:k], way._replace(samples=way.samples - half), *state.ways[k + 1 :]]
    return state._replace(ways=joined([*ways, way._replace(samples=half, lane=lane)]))


def spread_over_lanes(state: State, lanes: int) -> State | None:
    """The state with all samples in so many lanes, few in the first and ever more: so the next node begins soon."""
    steps = [lane * (lane + 1) for lane in range(lanes + 1)]
    ways = []
    for way in joined([way._replace(lane=0) for way in state.ways]):
        ends = [way.samples * step // steps[-1] for step in steps]
        ways += [way._replace(samples=b - a, lane=lane) for lane, (a, b) in enumerate(itertools.pairwise(ends))]
    spread = state._replace(ways=joined(ways))
    return None if spread == state else spread


def first_in_line(state: State, k: int) -> State:
    """The state with a way listed first: the gradients of replicas meet at the node of its last layer."""
    return state._replace(ways=(state.ways[k], *state.ways[:k], *state.ways[k + 1 :]))


def meeting_at(state: State, node: str | None) -> State | None:
    """The state with gradients of replicas meeting at a node, or where the rule says; None where nothing changes."""
    return state._replace(meet=node) if node != state.meet and state.shares_layers() else None
