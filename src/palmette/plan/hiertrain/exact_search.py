"""The optimum of T_total over assignments, cuts and batch splits.

Best-first search with three bounds, each tighter and slower than the one before:

    a closed-form lower bound for every placement                (lower_bounds)
    the minimum of T_total over integer b_l and real b_s         (batch_split.relaxed_bound_s)
    the best integers, for each set of active workers            (batch_split.best_splits)

A placement is pruned only if its bound exceeds the incumbent's T_total by more than rounding, so that the decision is
the same with and without pruning. Ties go to the first by m_s, m_l, worker_o, worker_s, worker_l (in the order of the
cluster), b_s, b_l.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from palmette.plan.hiertrain.batch_split import best_splits, relaxed_bound_s
from palmette.plan.hiertrain.feasible_region import feasible_region, relaxed_region
from palmette.plan.hiertrain.formula import Policy, total_s
from palmette.plan.hiertrain.lower_bounds import lower_bound_any_s, lower_bound_s
from palmette.plan.hiertrain.piecewise_linear import Flags, Placements, piecewise_linear
from palmette.plan.hiertrain.problem import Floats, HierTrainProblem, Ints

_ROUNDING = 1 + 1e-9
_PLACEMENTS_AT_ONCE = 60_000
_FIRST_BLOCK, _BLOCK = 160, 2048  # placements that get the second bound at once
_SOLVED_AT_ONCE = 6  # placements solved to integers at once
# Which of O, S, L have samples.
ACTIVE_PATTERNS = [flags for flags in itertools.product((True, False), repeat=3) if any(flags)]

Accepts = Callable[[Policy], bool]
Assignment = tuple[int, int | None, int | None]


@dataclass
class Incumbent:
    """The best policy so far."""

    policy: Policy | None = None
    total_s: float = float("inf")

    def offer(self, problem: HierTrainProblem, policy: Policy, accepts: Accepts) -> None:
        """Keep a policy if it is better than the best so far, and accepted."""
        cost = total_s(problem, policy)
        better = self.policy is None or (cost, tie_break_key(policy)) < (self.total_s, tie_break_key(self.policy))
        if better and accepts(policy):
            self.policy, self.total_s = policy, cost


def tie_break_key(policy: Policy) -> tuple[int, ...]:
    """Orders policies with equal T_total."""
    o, s, l, m_s, m_l, _, b_s, b_l = policy  # noqa: E741
    return (m_s, m_l, o, -1 if s is None else s, -1 if l is None else l, b_s, b_l)


def find_optimum(problem: HierTrainProblem, *, prune: bool = True, accepts: Accepts = lambda _: True) -> Incumbent:
    """The policy with the least T_total among those that ``accepts`` returns True for, if any.

    For each placement and set of active workers, ``accepts`` sees the best batch split only.
    """
    incumbent = Incumbent()
    groups = _groups_by_bound(problem) if prune else [(0.0, [each]) for each in assignments(problem)]
    for bound_s, group in groups:
        if bound_s <= _cutoff_s(incumbent):
            _search(problem, placements_of(problem, group), incumbent, prune, accepts)
    return incumbent


def _cutoff_s(incumbent: Incumbent) -> float:
    """The largest bound that is not pruned."""
    return min(incumbent.total_s * _ROUNDING, float(np.finfo(float).max))


def assignments(problem: HierTrainProblem) -> Iterator[Assignment]:
    """All assignments of worker_o, worker_s and worker_l; with two nodes there is no worker_s, with one no worker_l."""
    nodes = range(len(problem.names))
    if len(nodes) == 1:
        yield 0, None, None
    elif len(nodes) == 2:
        yield from ((o, None, 1 - o) for o in nodes)
    else:
        yield from itertools.permutations(nodes, 3)


def _groups_by_bound(problem: HierTrainProblem) -> list[tuple[float, list[Assignment]]]:
    """Groups of assignments with a lower bound each, best first: all in one, or one per worker_o and worker_l."""
    every = list(assignments(problem))
    cuts = (problem.depth + 1) * (problem.depth + 2) // 2
    if len(every) == 1 or len(every) * cuts <= _PLACEMENTS_AT_ONCE:
        return [(0.0, every)]
    groups: dict[tuple[int, int | None], list[Assignment]] = {}
    for assignment in every:
        groups.setdefault((assignment[0], assignment[2]), []).append(assignment)
    pairs = list(groups)
    bounds: list[float] = []
    at_once = max(1, _PLACEMENTS_AT_ONCE // cuts)
    for k in range(0, len(pairs), at_once):
        placements = _placements_without_s(problem, pairs[k : k + at_once])
        bounds += lower_bound_any_s(problem, placements).reshape(-1, cuts).min(axis=1).tolist()
    return sorted(zip(bounds, groups.values(), strict=True), key=lambda group: group[0])


def _placements_without_s(problem: HierTrainProblem, pairs: list[tuple[int, int | None]]) -> Placements:
    m_s, m_l = np.triu_indices(problem.depth + 1)
    o, l = (np.repeat(np.array(column, dtype=np.int64), len(m_s)) for column in zip(*pairs, strict=True))  # noqa: E741
    return Placements(o, o, l, np.tile(m_s, len(pairs)), np.tile(m_l, len(pairs)))


def placements_of(problem: HierTrainProblem, chosen: list[Assignment], *, skip_duplicates: bool = True) -> Placements:
    """All cuts of some assignments; with m = 0 the worker's node makes no difference, so that one is enough."""
    m_s, m_l = np.triu_indices(problem.depth + 1)
    parts = []
    for o, s, l in chosen:  # noqa: E741
        others = [node for node in range(min(len(problem.names), 3)) if node != o]
        keep: Flags = np.ones(len(m_s), dtype=bool)
        if s is None:
            keep &= m_s == 0
        elif skip_duplicates and s != next(node for node in others if node != l):
            keep &= m_s > 0
        if l is None:
            keep &= m_l == 0
        elif skip_duplicates and s is not None and [s, l] != others[:2]:
            keep &= m_l > 0
        many = int(keep.sum())
        on_o, on_s, on_l = (np.full(many, o if node is None else node) for node in (o, s, l))
        parts.append(Placements(on_o, on_s, on_l, m_s[keep], m_l[keep]))
    return Placements(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("o", "s", "l", "m_s", "m_l"))
    )


def _search(
    problem: HierTrainProblem, placements: Placements, incumbent: Incumbent, prune: bool, accepts: Accepts
) -> None:
    if not prune:
        _solve(problem, placements, incumbent, accepts)
        return
    bounds = lower_bound_s(problem, placements)
    ranked: Ints = np.argsort(bounds, kind="stable")
    at = 0
    while at < len(ranked):
        chosen = ranked[at : at + (_BLOCK if at else _FIRST_BLOCK)]
        at += len(chosen)
        chosen = chosen[bounds[chosen] <= _cutoff_s(incumbent)]
        if not len(chosen):
            return
        part = placements.take(chosen)
        bound_s = relaxed_bound_s(
            piecewise_linear(problem, part, None), relaxed_region(problem, part), _cutoff_s(incumbent)
        )
        _solve_best_first(problem, part, bound_s, incumbent, accepts)


def _solve_best_first(
    problem: HierTrainProblem, placements: Placements, bound_s: Floats, incumbent: Incumbent, accepts: Accepts
) -> None:
    """Solve placements a few at a time: the better the incumbent, the more of the others are pruned."""
    ranked: Ints = np.argsort(bound_s, kind="stable")
    while len(ranked):
        few, ranked = ranked[:_SOLVED_AT_ONCE], ranked[_SOLVED_AT_ONCE:]
        few = few[bound_s[few] <= _cutoff_s(incumbent)]
        if not len(few):
            return
        _solve(problem, placements.take(few), incumbent, accepts)


def _solve(problem: HierTrainProblem, placements: Placements, incumbent: Incumbent, accepts: Accepts) -> None:
    """Offer the best integers of placements, for each set of active workers."""
    which: Ints = np.repeat(np.arange(len(placements)), len(ACTIVE_PATTERNS))
    flags: list[Flags] = [np.tile(np.array(column), len(placements)) for column in zip(*ACTIVE_PATTERNS, strict=True)]
    several = placements.take(which)
    keep = ~(flags[1] & (several.m_s == 0)) & ~(flags[2] & (several.m_l == 0))
    active = flags[0][keep], flags[1][keep], flags[2][keep]
    several = several.take(keep)
    best = best_splits(piecewise_linear(problem, several, active), feasible_region(problem, several, active))
    for k in np.argsort(best.total_s, kind="stable"):
        if best.total_s[k] > _cutoff_s(incumbent):
            return
        incumbent.offer(problem, _policy(problem, several, int(k), int(best.b_s[k]), int(best.b_l[k])), accepts)


def _policy(problem: HierTrainProblem, placements: Placements, k: int, b_s: int, b_l: int) -> Policy:
    o, s, l = int(placements.o[k]), int(placements.s[k]), int(placements.l[k])  # noqa: E741
    return Policy(
        o=o,
        s=None if s == o else s,
        l=None if l == o else l,
        m_s=int(placements.m_s[k]),
        m_l=int(placements.m_l[k]),
        b_o=problem.batch - b_s - b_l,
        b_s=b_s,
        b_l=b_l,
    )
