"""Where the search begins: the plans of all rivals, HierTrain's formula with 8-bit outputs, and plain patterns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from palmette.errors import PalmetteError
from palmette.plan.hybrid_search.glance import Glance
from palmette.plan.hybrid_search.paths import Run, State, Way, joined, simplified, ways_of
from palmette.plan.hybrid_search.world import World
from palmette.plan.strategy import Strategy, Task
from palmette.spec.goal import Goal
from palmette.spec.plan import Phase

_ROOTS = 6
_PATTERNS, _MIXED = 24, 12
LANES = (2, 4, 8, 16)
MOST_WAYS = 240  # more of them take the event clock too long


def rivals(world: World) -> dict[str, Phase]:
    """The plan of every rival that has one; with a deadline, as if there were none."""
    from palmette.plan.hiertrain import HierTrain
    from palmette.plan.jalad import Jalad
    from palmette.plan.jointdnn import JointDNN, JointDNNPlus
    from palmette.plan.whole import AllCloud, AllDevice, AllEdge

    kinds: list[Any] = [AllDevice, AllEdge, AllCloud, JointDNN, JointDNNPlus, HierTrain]
    kinds += [] if world.lossless else [Jalad]
    task = replace(world.task, goal=Goal(weights=world.task.goal.weights))
    found = {}
    for kind in kinds:
        phase = _phase(kind(), task)
        if phase is not None:
            found[kind.name] = phase
    return found


def _phase(strategy: Strategy, task: Task) -> Phase | None:
    try:
        (phase,) = strategy.decide(task).phases
    except PalmetteError:
        return None
    return phase


def starts(world: World, known: dict[str, Phase]) -> list[State]:
    """States to begin with."""
    ways = [ways_of(phase) for phase in known.values()]
    if len(world.samples) == 1:
        ways += _shared_by_formula(world)
    states = [State(each) for each in ways]
    return [state for state in [*states, *_promising(world)] if all(map(world.keeps_private, state.ways))]


def _promising(world: World) -> list[State]:
    """Patterns, mixtures of two patterns, and both in lanes: those that look fastest at a glance."""
    glance = Glance(world)

    def fastest(states: Iterable[State], many: int) -> list[State]:
        return sorted(dict.fromkeys(states), key=glance.likely_s)[:many]

    patterns = fastest(map(State, _patterns(world)), _PATTERNS)
    mixed = [
        _mixed(one, other, part) for one, other in itertools.combinations(patterns, 2) for part in (0.25, 0.5, 0.75)
    ]
    mixed = fastest(mixed, _MIXED)
    laned = [
        _in_lanes(state, lanes)
        for state in patterns[:_MIXED]
        for lanes in LANES
        if lanes * len(state.ways) <= MOST_WAYS
    ]
    return [*patterns, *mixed, *laned, *(_in_lanes(state, 3) for state in mixed)]


def _mixed(one: State, other: State, part: float) -> State:
    """A part of every source's samples as in one state, the rest as in the other."""
    ways = [way._replace(samples=round(part * way.samples)) for way in one.ways]
    taken = {way.source: way.samples for way in ways}
    return State(joined([*ways, *(way._replace(samples=way.samples - taken[way.source]) for way in other.ways)]))


def _in_lanes(state: State, lanes: int) -> State:
    """The samples of every way in lanes of their own, few in the first and ever more: so the next node begins soon."""
    steps = [lane * (lane + 1) for lane in range(lanes + 1)]
    ways = []
    for way in state.ways:
        ends = [way.samples * step // steps[-1] for step in steps]
        ways += [way._replace(samples=b - a, lane=lane) for lane, (a, b) in enumerate(itertools.pairwise(ends))]
    return State(joined(ways))


def _shared_by_formula(world: World) -> list[tuple[Way, ...]]:
    """HierTrain's optimum if outputs were a quarter as large, as 8-bit integers are."""
    from palmette.plan.hiertrain_search.exact import optimum
    from palmette.plan.hiertrain_search.ground import ground
    from palmette.plan.hiertrain_search.tree import tree

    numbers = ground(world.task)
    if world.lossless:
        return []
    found = optimum(replace(numbers, output_bytes=numbers.output_bytes / 4))
    return [] if found.policy is None else [ways_of(tree(numbers, found.policy, world.task))]


def _patterns(world: World) -> list[tuple[Way, ...]]:
    """All sources alike: the first layers at home, then on a helper nearby, the rest on one node."""
    return list(dict.fromkeys(_pattern(world, root, *cuts) for root, cuts in _plain_patterns(world)))


def _plain_patterns(world: World) -> Iterator[tuple[str, tuple[int, int]]]:
    cuts = [0, *world.cuts]
    for root in world.nodes[:_ROOTS]:
        for home, helper in itertools.combinations_with_replacement(cuts, 2):
            yield root, (home, helper)


def _pattern(world: World, root: str, home: int, helper: int) -> tuple[Way, ...]:
    ways = []
    for source, samples in world.samples.items():
        helping = next((node for node in world.helpers[source] if node != source and node not in world.samples), root)
        start = 1 if source in world.private else 0
        runs: list[Run] = [(source, max(home, start)), (helping, helper), (root, world.depth)]
        usable = [(node, last) for node, last in runs if node in world.shares]
        ways.append(Way(source, samples, simplified(usable)))
    return joined(ways)
