"""Other paths for samples: each edit turns a path's runs into other runs, or returns None where it does not apply.

An edit is made for one path and applied to it alone, or to all of the same shape: with forty devices, moving the cut of
one changes little as long as all the others wait. It is applied to all samples of a path, or to a part of them, which
then get a path of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from palmette.plan.hybrid.paths import Run, SamplePath, SearchState, joined, simplified
from palmette.plan.hybrid.problem import HybridProblem
from palmette.spec.plan import Order

Runs = tuple[Run, ...]
Edit = Callable[[SamplePath], Runs | None]
PARTS = (1.0, 0.5, 0.25, 0.1)


def shape_of(path: SamplePath, problem: HybridProblem) -> tuple[object, ...]:
    """What paths that can be edited together have in common: the kind of each run's node and where it ends."""
    cluster = problem.task.cluster.nodes
    return tuple(("own" if node == path.source else cluster[node].tier, last) for node, last in path.runs)


def selections(state: SearchState, problem: HybridProblem) -> list[list[int]]:
    """Paths that are edited together: those of the same shape, those that pass the same nodes, then each alone."""
    same_shape: dict[tuple[object, ...], list[int]] = {}
    nearby: dict[tuple[object, ...], list[int]] = {}
    for k, path in enumerate(state.paths):
        same_shape.setdefault(shape_of(path, problem), []).append(k)
        passed = tuple(("own" if node == path.source else node, last) for node, last in path.runs)
        nearby.setdefault((path.microbatch, passed), []).append(k)
    groups = [group for group in same_shape.values() if len(group) > 1]
    groups += [group for group in nearby.values() if len(group) > 1 and group not in groups]
    if len(groups) > 1 or (groups and len(same_shape) > 1):
        groups.append(list(range(len(state.paths))))
    return groups + [[k] for k in range(len(state.paths))]


def edits(path: SamplePath, problem: HybridProblem) -> Iterator[Edit]:
    """Edits for a path and those of its shape: small ones first."""
    yield from _cut_edits(path, problem.depth)
    near = list(dict.fromkeys([*(node for node, _ in path.runs), *problem.nearest_nodes[path.source], path.source]))
    near = [node for node in near if node in problem.cpu_shares]
    for k in range(len(path.runs)):
        yield from (_on(k, node) for node in near)
        if len(path.runs) > 1:
            yield _without(k)
    for cut in problem.cuts:
        yield _first_at_source(cut)
        for node in near:
            yield _first_on(node, cut)
            yield _last_on(node, cut)


def _cut_edits(path: SamplePath, depth: int) -> Iterator[Edit]:
    for k in range(len(path.runs) - 1):
        for step in (1, -1, 2, -2, 4, -4, 8, -8):
            if 0 <= path.runs[k][1] + step <= depth:
                yield _cut_at(k, path.runs[k][1] + step)


def _cut_at(k: int, last: int) -> Edit:
    def edit(path: SamplePath) -> Runs | None:
        if k >= len(path.runs) - 1:
            return None
        before = [(node, min(end, last)) for node, end in path.runs[:k]]
        return simplified([*before, (path.runs[k][0], last), *path.runs[k + 1 :]])

    return edit


def _on(k: int, node: str) -> Edit:
    def edit(path: SamplePath) -> Runs | None:
        if k >= len(path.runs):
            return None
        return simplified([*path.runs[:k], (node, path.runs[k][1]), *path.runs[k + 1 :]])

    return edit


def _without(k: int) -> Edit:
    """Without a run: the next one does its layers, or the one before if it is the last."""

    def edit(path: SamplePath) -> Runs | None:
        if k >= len(path.runs) or len(path.runs) == 1:
            return None
        if k == len(path.runs) - 1:
            return simplified([*path.runs[: k - 1], (path.runs[k - 1][0], path.runs[k][1])])
        return simplified([*path.runs[:k], *path.runs[k + 1 :]])

    return edit


def _first_on(node: str, cut: int) -> Edit:
    def edit(path: SamplePath) -> Runs | None:
        return simplified([(node, cut), *path.runs])

    return edit


def _first_at_source(cut: int) -> Edit:
    def edit(path: SamplePath) -> Runs | None:
        return simplified([(path.source, cut), *path.runs])

    return edit


def _last_on(node: str, cut: int) -> Edit:
    """The layers after a cut on another node."""

    def edit(path: SamplePath) -> Runs | None:
        before = [(each, min(last, cut - 1)) for each, last in path.runs]
        return simplified([*before, (node, path.runs[-1][1])])

    return edit


def edited(
    state: SearchState, chosen: Sequence[int], edit: Edit, part: float, problem: HybridProblem
) -> SearchState | None:
    """The state with an edit applied to a part of the samples of some paths; None where it changes nothing."""
    paths: list[SamplePath] = []
    changed = False
    for k, path in enumerate(state.paths):
        runs = edit(path) if k in chosen else None
        runs = None if runs is None else problem.with_private_layers_at_source(path.source, runs)
        if runs is None or runs == path.runs or not all(node in problem.cpu_shares for node, _ in runs):
            paths.append(path)
            continue
        moved = path.samples if part == 1.0 else max(1, round(part * path.samples))
        paths += [path._replace(samples=path.samples - moved), path._replace(samples=moved, runs=runs)]
        changed = True
    return state._replace(paths=joined(paths)) if changed else None


def split_off_microbatch(state: SearchState, k: int, microbatch: int) -> SearchState | None:
    """The state with half of a path's samples in their own microbatch: one half computes while the other travels."""
    path = state.paths[k]
    half = path.samples // 2
    if not half:
        return None
    paths = [*state.paths[:k], path._replace(samples=path.samples - half), *state.paths[k + 1 :]]
    return state._replace(paths=joined([*paths, path._replace(samples=half, microbatch=microbatch)]))


def split_into_microbatches(state: SearchState, microbatches: int) -> SearchState | None:
    """The state with all samples in so many microbatches, the first the smallest: so the next node starts early."""
    steps = [microbatch * (microbatch + 1) for microbatch in range(microbatches + 1)]
    paths = []
    for path in joined([path._replace(microbatch=0) for path in state.paths]):
        ends = [path.samples * step // steps[-1] for step in steps]
        paths += [
            path._replace(samples=b - a, microbatch=microbatch)
            for microbatch, (a, b) in enumerate(itertools.pairwise(ends))
        ]
    spread = state._replace(paths=joined(paths))
    return None if spread == state else spread


def with_first_path(state: SearchState, k: int) -> SearchState:
    """The state with a path listed first: the gradients of replicas meet at the node of its last layer."""
    return state._replace(paths=(state.paths[k], *state.paths[:k], *state.paths[k + 1 :]))


def with_meeting_node(state: SearchState, node: str | None) -> SearchState | None:
    """The state with gradients of replicas meeting at a node, or where the rule says; None where nothing changes."""
    return state._replace(meet=node) if node != state.meet and state.shares_layers() else None


def with_order(state: SearchState, order: Order) -> SearchState | None:
    """The state with its microbatches in another order; None where nothing changes, or where it has only one."""
    one = all(path.microbatch == state.paths[0].microbatch for path in state.paths)
    return None if one or order == state.order else state._replace(order=order)
