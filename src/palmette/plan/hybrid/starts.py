"""Where the search begins: the plans of all rivals, HierTrain's formula with 8-bit outputs, and plain patterns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from palmette.errors import PalmetteError
from palmette.plan.core.make_plan import configured
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import Strategy, Task
from palmette.plan.hybrid.descent import MOST_WAYS
from palmette.plan.hybrid.edits import meeting_at, spread_over_lanes
from palmette.plan.hybrid.paths import Run, State, Way, joined, simplified, ways_of
from palmette.plan.hybrid.pricing import Objective
from palmette.plan.hybrid.problem import World
from palmette.plan.hybrid.quick_bound import Quick
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.goal import Goal
from palmette.spec.plan import Phase

_ROOTS = 6
_PATTERNS, _MIXED = 24, 12
LANES = (2, 4, 8, 16)


def rivals(world: World) -> dict[str, Phase]:
    """The plan of every strategy that has one such as this search makes, whatever the goal or the deadline."""
    task = replace(world.task, goal=Goal())
    found = _on_single_nodes(task, world.nodes)
    for name, kind in strategies().items():
        if _decides_on_one_phase(kind) and not kind.uses_one_node:
            phase = _phase(name, task)
            if phase is not None and (world.lossy or not _is_lossy(phase)):
                found[name] = phase
    return found


def _decides_on_one_phase(kind: type[Strategy]) -> bool:
    """Whether a strategy decides, by itself and from the profile, how one iteration is done."""
    return kind.needs_profile and not (kind.plans_epochs or kind.composed or kind.starts_from_others)


def _is_lossy(phase: Phase) -> bool:
    return any(each.into is not None and CODEC_KINDS[each.codec].lossy for each in phase.instances)


def _on_single_nodes(task: Task, nodes: Iterable[str]) -> dict[str, Phase]:
    """The whole network on each node that may have it: all that all-device, all-edge and all-cloud choose from."""
    from palmette.plan.core.choice import best
    from palmette.plan.rivals.whole import on_one_node

    found = {}
    for node in nodes:
        try:
            phase = best([on_one_node(node, task)], task).phase
        except PalmetteError:
            continue
        found[f"all-{task.cluster.nodes[node].tier} on {node}"] = phase
    return found


def _phase(name: str, task: Task) -> Phase | None:
    """The phase of a strategy's plan, if it has one whose trees share a model, as all trees of this search do."""
    try:
        (phase,) = configured(name, {}).decide(task).phases
    except PalmetteError:
        return None
    return phase if phase.agreement.one_model else None


def starts(world: World, known: dict[str, Phase], quick: Quick, objectives: Iterable[Objective]) -> list[State]:
    """States to begin with: the rivals', and those that look best for any of the objectives."""
    ways = [ways_of(phase) for phase in known.values()]
    if len(world.samples) == 1 and world.lossy:
        ways += _shared_by_formula(world)
    states = [State(each) for each in ways]
    patterns = [state for each in _patterns(world) for state in _meeting(State(each), world)]
    for objective in objectives:
        states += _promising(patterns, quick, objective)
    return [state for state in dict.fromkeys(states) if all(map(world.keeps_private, state.ways))]


def _promising(patterns: list[State], quick: Quick, objective: Objective) -> list[State]:
    """Patterns, mixtures of two patterns, and both in lanes: those that look best at first."""

    def best(states: Iterable[State], many: int) -> list[State]:
        return sorted(dict.fromkeys(states), key=lambda state: objective.score(quick.likely(state)))[:many]

    chosen = best(patterns, _PATTERNS)
    mixed = [
        _mixed(one, other, part)
        for one, other in itertools.combinations(chosen[:_MIXED], 2)
        for part in (0.25, 0.5, 0.75)
    ]
    mixed = best(mixed, _MIXED)
    spread = [(state, lanes) for state in chosen[:_MIXED] for lanes in LANES] + [(state, 3) for state in mixed]
    laned = [spread_over_lanes(state, lanes) for state, lanes in spread if lanes * len(state.ways) <= MOST_WAYS]
    return [*chosen, *mixed, *(state for state in laned if state is not None)]


def _meeting(state: State, world: World) -> list[State]:
    """A state with gradients meeting where the rule says, and at each node that they may meet at."""
    return [state, *(met for node in world.meeting if (met := meeting_at(state, node)) is not None)]


def _mixed(one: State, other: State, part: float) -> State:
    """A part of every source's samples as in one state, the rest as in the other."""
    ways = [way._replace(samples=round(part * way.samples)) for way in one.ways]
    taken = {way.source: way.samples for way in ways}
    rest = (way._replace(samples=way.samples - taken[way.source]) for way in other.ways)
    return one._replace(ways=joined([*ways, *rest]))


def _shared_by_formula(world: World) -> list[tuple[Way, ...]]:
    """HierTrain's optimum if outputs were as small as the codec makes them."""
    from palmette.plan.hiertrain.exact_search import find_optimum
    from palmette.plan.hiertrain.problem import build_problem
    from palmette.plan.hiertrain.tree import build_tree

    numbers = build_problem(world.task)
    found = find_optimum(replace(numbers, output_bytes=numbers.output_bytes * CODEC_KINDS[world.codec].ratio))
    return [] if found.policy is None else [ways_of(build_tree(numbers, found.policy, world.task))]


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
        runs: list[Run] = [(source, home), (helping, helper), (root, world.depth)]
        usable = simplified([(node, last) for node, last in runs if node in world.shares])
        ways.append(Way(source, samples, world.kept_at_home(source, usable)))
    return joined(ways)
