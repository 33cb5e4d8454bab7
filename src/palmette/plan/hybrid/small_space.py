"""All plans of a small problem: few nodes, layers and samples leave so few sets of paths that each can be looked at.

A set of paths says which samples pass which nodes. Sets of one path for each source come first, then those in which one
path more is split off, as long as they are few. The plans of a set differ in its microbatches, in the order of its
paths and in where gradients meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from palmette.plan.hybrid.paths import Run, SamplePath, SearchState, simplified
from palmette.plan.hybrid.problem import HybridProblem

MOST_SETS = 20_000
_MOST_PATHS = 3
PathSet = tuple[SamplePath, ...]  # all in microbatch 0, sorted
_Ways = dict[str, list[tuple[Run, ...]]]


def path_sets(problem: HybridProblem, most_sets: int) -> Iterator[PathSet]:
    """At most so many sets of paths, few paths first; nothing where there are more with two paths, or one a source."""
    sources = len(problem.samples)
    if sources > _MOST_PATHS or len(problem.cpu_shares) ** (problem.depth * sources) > most_sets:
        return
    ways = {source: _ways(problem, source) for source in problem.samples}
    alone = [[SamplePath(source, many, runs) for runs in ways[source]] for source, many in problem.samples.items()]
    levels = [{tuple(sorted(each)) for each in itertools.product(*alone)}]
    while levels[-1] and len(levels[-1]) + sum(map(len, levels[:-1])) <= most_sets:
        more = _with_one_more(levels[-1], ways, most_sets - sum(map(len, levels)))
        if more is None and len(levels) == sources == 1:
            return
        levels.append(more or set())
    for sets in levels:
        yield from sorted(sets)


def _ways(problem: HybridProblem, source: str) -> list[tuple[Run, ...]]:
    """The runs of a source's samples, in every way that keeps private what is."""
    layers = range(1, problem.depth + 1)
    nodes = itertools.product(problem.cpu_shares, repeat=problem.depth)
    found = [simplified(list(zip(each, layers, strict=True))) for each in nodes]
    return [runs for runs in found if problem.keeps_private(SamplePath(source, 1, runs))]


def _with_one_more(sets: set[PathSet], ways: _Ways, most: int) -> set[PathSet] | None:
    """Every set with some samples of a path on another way; None where that makes more than so many."""
    some = next(iter(sets))
    many = len(some) + 1
    if many > _MOST_PATHS:
        return set()
    splits = sum((path.samples - 1) * len(ways[path.source]) for path in some)
    if splits * len(sets) > many * (many - 1) * most:  # a set is made at most so often, by each pair of its paths
        return None
    found: set[PathSet] = set()
    for paths in sets:
        for k, path in enumerate(paths):
            rest = (*paths[:k], *paths[k + 1 :])
            for moved, runs in itertools.product(range(1, path.samples), ways[path.source]):
                parts = (path._replace(samples=path.samples - moved), path._replace(samples=moved, runs=runs))
                found.add(tuple(sorted((*rest, *parts))))
    return found if len(found) <= most else None


def groups_of(paths: PathSet, problem: HybridProblem) -> Iterator[tuple[SearchState, ...]]:
    """The paths in all microbatches and orders, with gradients meeting anywhere.

    The states of a group differ in the order of paths alone: calls that are ready at once begin in another order, and
    nothing else changes.
    """
    for microbatches in _microbatches(len(paths)):
        members = tuple(map(_in_microbatch, paths, microbatches))
        if len({(path.source, path.runs, path.microbatch) for path in members}) < len(paths):
            continue  # with equal paths joined, the state of a smaller set
        orders = [SearchState(order) for order in dict.fromkeys(map(_renumbered, itertools.permutations(members)))]
        by_root: dict[str, list[SearchState]] = {}  # gradients meet near the root of the first path, if nothing is said
        for state in orders:
            by_root.setdefault(state.paths[0].runs[-1][0], []).append(state)
        if not orders[0].shares_layers():
            yield tuple(orders)
            continue
        yield from map(tuple, by_root.values())
        for node in problem.meeting_nodes:
            yield tuple(state._replace(meet=node) for state in orders)


def _in_microbatch(path: SamplePath, microbatch: int) -> SamplePath:
    return path._replace(microbatch=microbatch)


def _renumbered(paths: PathSet) -> PathSet:
    """Paths with their microbatches numbered as they first occur."""
    numbers: dict[int, int] = {}
    return tuple(path._replace(microbatch=numbers.setdefault(path.microbatch, len(numbers))) for path in paths)


def _microbatches(many: int) -> Iterator[tuple[int, ...]]:
    """Microbatches of so many paths, numbered as they first occur."""
    for numbers in itertools.product(range(many), repeat=many):
        if all(number <= max(numbers[:k], default=-1) + 1 for k, number in enumerate(numbers)):
            yield numbers
