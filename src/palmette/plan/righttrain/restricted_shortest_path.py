"""Restricted shortest paths: the lightest path through a layered graph within a delay.

``label_setting`` is exact; ``lorenz_raz`` finds a path of at most (1 + ε) times the least weight in time polynomial in
the size of the graph and 1/ε.

    Dean H. Lorenz, Danny Raz: A simple efficient approximation scheme for the restricted shortest path problem.
    Operations Research Letters 28, 2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palmette.plan.righttrain.problem import Floats


class PathStage(NamedTuple):
    """The edges from one column of vertices to the next: weight and delay, infinite where there is none."""

    weight: Floats
    delay: Floats


class RestrictedPath(NamedTuple):
    """A path: its weight, its delay, and the vertex of each column."""

    weight: float
    delay: float
    vertices: tuple[int, ...]


def shortest_path(lengths: Sequence[Floats]) -> tuple[float, tuple[int, ...]]:
    """The shortest path by any lengths of the edges, from the first column's only vertex to any of the last."""
    best, back = np.zeros(1), []
    for length in lengths:
        total = best[:, None] + length
        back.append(total.argmin(axis=0))
        best = total.min(axis=0)
    at = int(best.argmin())
    vertices = [at]
    for choice in reversed(back):
        vertices.append(int(choice[vertices[-1]]))
    return float(best[at]), tuple(reversed(vertices))


def path_of(stages: Sequence[PathStage], vertices: tuple[int, ...]) -> RestrictedPath:
    """A path with its weight and delay."""
    steps = list(zip(stages, vertices, vertices[1:], strict=False))
    return RestrictedPath(
        float(sum(stage.weight[a, b] for stage, a, b in steps)),
        float(sum(stage.delay[a, b] for stage, a, b in steps)),
        vertices,
    )


def label_setting(stages: Sequence[PathStage], max_delay: float) -> RestrictedPath | None:
    """The lightest path with a delay of at most ``max_delay``, exactly; None where there is none.

    Of the paths to a vertex only those are kept that no other dominates in weight and delay.
    """
    labels: list[list[RestrictedPath]] = [[RestrictedPath(0.0, 0.0, (0,))]]
    for stage, remaining in zip(stages, _min_remaining_delay(stages), strict=True):
        after: list[list[RestrictedPath]] = []
        for b in range(stage.weight.shape[1]):
            reached = [
                RestrictedPath(path.weight + stage.weight[a, b], path.delay + stage.delay[a, b], (*path.vertices, b))
                for a, paths in enumerate(labels)
                for path in paths
                if path.delay + stage.delay[a, b] + remaining[b] <= max_delay and stage.weight[a, b] < np.inf
            ]
            after.append(_pareto_front(reached))
        labels = after
    found = [path for paths in labels for path in paths]
    return min(found) if found else None


def _min_remaining_delay(stages: Sequence[PathStage]) -> list[Floats]:
    """The least delay from each vertex of each column, but the first, to the end."""
    remaining = [np.zeros(stages[-1].delay.shape[1])]
    for stage in reversed(stages[1:]):
        remaining.append((stage.delay + remaining[-1]).min(axis=1))
    return remaining[::-1]


def _pareto_front(paths: list[RestrictedPath]) -> list[RestrictedPath]:
    kept: list[RestrictedPath] = []
    for path in sorted(paths):
        if not kept or path.delay < kept[-1].delay:
            kept.append(path)
    return kept


def lorenz_raz(stages: Sequence[PathStage], max_delay: float, epsilon: float) -> RestrictedPath | None:
    """A path within ``max_delay`` that weighs at most 1 + ε times the least; None where there is none."""
    free = path_of(stages, shortest_path([stage.weight for stage in stages])[1])
    if free.delay <= max_delay and free.weight < np.inf:
        return free
    lower = _bottleneck(stages, max_delay)
    if lower is None:
        return None
    if lower == 0:
        return _fastest_path(stages, 0.0)
    low, high = lower, lower * len(stages) / 2
    while high > 2 * low:  # the least weight is at least low and at most twice high
        middle = (low * high) ** 0.5
        if _scaled_search(stages, max_delay, middle, middle, 1.0) is None:
            low = middle
        else:
            high = middle
    return _scaled_search(stages, max_delay, low, max(2 * high, low), epsilon)


def _bottleneck(stages: Sequence[PathStage], max_delay: float) -> float | None:
    """The least w such that edges of at most weight w contain a path within the delay: a lower bound."""
    weights = np.unique(np.concatenate([stage.weight[np.isfinite(stage.weight)] for stage in stages]))
    if not len(weights) or _fastest_path(stages, float(weights[-1])).delay > max_delay:
        return None
    low, high = 0, len(weights) - 1
    while low < high:
        middle = (low + high) // 2
        if _fastest_path(stages, float(weights[middle])).delay <= max_delay:
            high = middle
        else:
            low = middle + 1
    return float(weights[low])


def _fastest_path(stages: Sequence[PathStage], heaviest: float) -> RestrictedPath:
    """The path with the least delay over edges that weigh at most ``heaviest``."""
    delays = [np.where(stage.weight <= heaviest, stage.delay, np.inf) for stage in stages]
    total, vertices = shortest_path(delays)
    return path_of(stages, vertices) if total < np.inf else RestrictedPath(np.inf, np.inf, vertices)


def _scaled_search(
    stages: Sequence[PathStage], max_delay: float, lower: float, upper: float, epsilon: float
) -> RestrictedPath | None:
    """The lightest path within the delay, weights rounded to multiples of lower·ε/(n+1); None above ``upper``."""
    unit = lower * epsilon / (len(stages) + 1)
    top = int(upper / unit) + len(stages) + 1
    min_delay = np.full((top + 1, 1), np.inf)
    min_delay[0] = 0.0
    backs: list[tuple[np.ndarray, np.ndarray]] = []
    for stage in stages:
        rounded = np.where(stage.weight <= upper, np.floor(stage.weight / unit) + 1, top + 1).astype(np.int64)
        min_delay, back = _extend(min_delay, rounded, stage.delay, top)
        backs.append((back, rounded))
    good = np.argwhere(min_delay <= max_delay)
    if not len(good):
        return None
    weight, at = (int(each) for each in good[0])
    vertices = [at]
    for back, rounded in reversed(backs):
        before = int(back[weight, at])
        weight -= int(rounded[before, at])
        at = before
        vertices.append(at)
    return path_of(stages, tuple(reversed(vertices)))


def _extend(min_delay: Floats, rounded: np.ndarray, delay: Floats, top: int) -> tuple[Floats, np.ndarray]:
    """The least delay to each vertex of the next column for each rounded weight, and where it comes from."""
    many = rounded.shape[1]
    after, back = np.full((top + 1, many), np.inf), np.zeros((top + 1, many), dtype=np.int64)
    for a in range(rounded.shape[0]):
        for b in np.flatnonzero(rounded[a] <= top):
            shift = int(rounded[a, b])
            tried = min_delay[: top + 1 - shift, a] + delay[a, b]
            better = tried < after[shift:, b]
            after[shift:, b][better] = tried[better]
            back[shift:, b][better] = a
    return after, back
