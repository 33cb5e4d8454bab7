"""Where the search begins: the plans of other strategies, HierTrain's formula with coded outputs, simple patterns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from palmette.cost.check import forbidden, missing
from palmette.errors import PalmetteError
from palmette.plan.core.choice import over_energy
from palmette.plan.core.make_plan import configured
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import Strategy, Task
from palmette.plan.hybrid.descent import MOST_PATHS
from palmette.plan.hybrid.edits import split_into_microbatches, with_meeting_node
from palmette.plan.hybrid.paths import Run, SamplePath, SearchState, joined, paths_of, simplified
from palmette.plan.hybrid.pricing import Objective
from palmette.plan.hybrid.problem import HybridProblem
from palmette.plan.hybrid.quick_bound import QuickBound
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.goal import Goal
from palmette.spec.plan import Phase

_ROOTS = 6
_NEAR_PATTERNS, _PATTERNS, _MIXED = 96, 24, 12
MICROBATCHES = (2, 4, 8, 16)
UPLOAD = "upload to "
"""How the name of an upload to a node begins."""


def rival_phases(problem: HybridProblem) -> dict[str, Phase]:
    """The phase of every strategy that plans one such as this search makes, whatever the goal or the deadline."""
    task = replace(problem.task, goal=Goal())
    found = _on_single_nodes(task, problem.nodes, upload=not problem.resend)
    for name, kind in strategies().items():
        if _decides_on_one_phase(kind) and not kind.uses_one_node:
            phase = _phase(name, task)
            if phase is not None and (problem.lossy or not _is_lossy(phase)):
                found[name] = phase
    return found


def _decides_on_one_phase(kind: type[Strategy]) -> bool:
    """Whether a strategy decides, by itself and from the profile, how one iteration is done."""
    several = kind.plans_epochs or kind.changes_nodes or kind.trains_apart
    return kind.needs_profile and not (several or kind.composed or kind.starts_from_others)


def _is_lossy(phase: Phase) -> bool:
    return any(each.into is not None and CODEC_KINDS[each.codec].lossy for each in phase.instances)


def _on_single_nodes(task: Task, nodes: Iterable[str], *, upload: bool) -> dict[str, Phase]:
    """The whole network on each node that may have it: all that all-device, all-edge, all-cloud and upload choose from.

    Without ``upload``, samples are not kept.
    """
    from palmette.plan.core.one_node import on_one_node
    from palmette.plan.core.recompute import recompute_to_fit
    from palmette.plan.core.upload import upload_nodes, upload_to

    phases = {
        f"all-{task.cluster.nodes[node].tier} on {node}": recompute_to_fit(on_one_node(node, task), task)
        for node in nodes
    }
    if upload:
        phases |= {UPLOAD + node: upload_to(node, task) for node in upload_nodes(task)}
    return {name: phase for name, phase in phases.items() if _may_run(phase, task)}


def _may_run(phase: Phase, task: Task) -> bool:
    """Whether nothing about a phase is missing, forbidden or beyond a limit; it is not priced for that."""
    faults = itertools.chain(missing(phase, task.evaluator), forbidden(phase, task.evaluator))
    return next(faults, None) is None and not over_energy(phase, task)


def _phase(name: str, task: Task) -> Phase | None:
    """The phase of a strategy's plan, if it has one whose trees share a model, as all trees of this search do."""
    try:
        (phase,) = configured(name, {}).decide(task).phases
    except PalmetteError:
        return None
    return phase if phase.sync_kind.one_model else None


def starts(
    problem: HybridProblem, known: dict[str, Phase], quick_bound: QuickBound, objectives: Iterable[Objective]
) -> list[SearchState]:
    """States to begin with: those of other strategies, and the most promising for any of the objectives."""
    paths = [paths_of(phase) for phase in known.values()]
    if len(problem.samples) == 1 and problem.lossy:
        paths += _shared_by_formula(problem)
    states = [SearchState(each) for each in paths]
    patterns = [SearchState(each) for each in _patterns(problem)]
    for objective in objectives:
        states += _promising(patterns, problem, quick_bound, objective)
    return [state for state in dict.fromkeys(states) if all(map(problem.keeps_private, state.paths))]


def _promising(
    patterns: list[SearchState], problem: HybridProblem, quick_bound: QuickBound, objective: Objective
) -> list[SearchState]:
    """Patterns, mixtures of two patterns, and both in microbatches: the most promising."""

    def best(states: Iterable[SearchState], many: int) -> list[SearchState]:
        return sorted(dict.fromkeys(states), key=lambda state: objective.score(quick_bound.likely(state)))[:many]

    near = best(patterns, _NEAR_PATTERNS)  # with many sources a look at each meeting node takes long
    chosen = best([met for state in near for met in _with_meeting_nodes(state, problem)], _PATTERNS)
    mixed = [
        _mixed(one, other, part)
        for one, other in itertools.combinations(chosen[:_MIXED], 2)
        for part in (0.25, 0.5, 0.75)
    ]
    mixed = best(mixed, _MIXED)
    spread = [(state, microbatches) for state in chosen[:_MIXED] for microbatches in MICROBATCHES] + [
        (state, 3) for state in mixed
    ]
    batched = [
        split_into_microbatches(state, microbatches)
        for state, microbatches in spread
        if microbatches * len(state.paths) <= MOST_PATHS
    ]
    return [*chosen, *mixed, *(state for state in batched if state is not None)]


def _with_meeting_nodes(state: SearchState, problem: HybridProblem) -> list[SearchState]:
    """A state with gradients meeting where the rule says, and at each node that they may meet at."""
    return [state, *(met for node in problem.meeting_nodes if (met := with_meeting_node(state, node)) is not None)]


def _mixed(one: SearchState, other: SearchState, part: float) -> SearchState:
    """A part of every source's samples as in one state, the rest as in the other."""
    paths = [path._replace(samples=round(part * path.samples)) for path in one.paths]
    taken = {path.source: path.samples for path in paths}
    rest = (path._replace(samples=path.samples - taken[path.source]) for path in other.paths)
    return one._replace(paths=joined([*paths, *rest]))


def _shared_by_formula(problem: HybridProblem) -> list[tuple[SamplePath, ...]]:
    """HierTrain's optimum if outputs were as small as the codec makes them."""
    from palmette.plan.hiertrain.exact_search import find_optimum
    from palmette.plan.hiertrain.problem import build_problem
    from palmette.plan.hiertrain.tree import build_tree

    numbers = build_problem(problem.task)
    found = find_optimum(replace(numbers, output_bytes=numbers.output_bytes * CODEC_KINDS[problem.codec].ratio))
    return [] if found.policy is None else [paths_of(build_tree(numbers, found.policy, problem.task))]


def _patterns(problem: HybridProblem) -> list[tuple[SamplePath, ...]]:
    """All sources the same way: the first layers at the source, then on a node nearby, the rest on one node."""
    return list(dict.fromkeys(_pattern(problem, root, *cuts) for root, cuts in _pattern_cuts(problem)))


def _pattern_cuts(problem: HybridProblem) -> Iterator[tuple[str, tuple[int, int]]]:
    cuts = [0, *problem.cuts]
    for root in problem.nodes[:_ROOTS]:
        for first, second in itertools.combinations_with_replacement(cuts, 2):
            yield root, (first, second)


def _pattern(problem: HybridProblem, root: str, first: int, second: int) -> tuple[SamplePath, ...]:
    paths = []
    for source, samples in problem.samples.items():
        nearby = next(
            (node for node in problem.nearest_nodes[source] if node != source and node not in problem.samples), root
        )
        runs: list[Run] = [(source, first), (nearby, second), (root, problem.depth)]
        usable = simplified([(node, last) for node, last in runs if node in problem.cpu_shares])
        paths.append(SamplePath(source, samples, problem.with_private_layers_at_source(source, usable)))
    return joined(paths)
