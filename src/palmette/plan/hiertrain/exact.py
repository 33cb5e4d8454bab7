"""The optimum of T_total over assignments, cuts and samples.

Best first, through three sieves, each dearer and finer than the one before:

    a closed lower bound for every cut of every assignment          (bounds)
    the least T_total over whole b_l and real b_s                   (samples.relaxed_s)
    the best integers, for each choice of who has samples at all    (samples.best_samples)

A row is left out only if its bound is above the best T_total so far by more than rounding, so that with and without
sieves the decision is the same. Of equal policies the first wins by m_s, m_l, worker_o, worker_s, worker_l (in the
order of the cluster), b_s, b_l.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from palmette.plan.hiertrain import domain
from palmette.plan.hiertrain.bounds import lower_bound_s, lower_bound_whoever_is_s
from palmette.plan.hiertrain.formula import Policy, total_s
from palmette.plan.hiertrain.pieces import Flags, Rows, pieces
from palmette.plan.hiertrain.problem import Floats, Ground, Ints
from palmette.plan.hiertrain.samples import best_samples, relaxed_s

_ROUNDING = 1 + 1e-9
_ROWS_AT_ONCE = 60_000
_FIRST, _MOST = 160, 2048  # rows that go through the second sieve at once
_SETTLED = 6  # rows that go through the third at once
# Who has samples: O, S, L.
PATTERNS = [flags for flags in itertools.product((True, False), repeat=3) if any(flags)]

Accepts = Callable[[Policy], bool]
Trio = tuple[int, int | None, int | None]


@dataclass
class Found:
    """The best policy so far."""

    policy: Policy | None = None
    total_s: float = float("inf")

    def offer(self, ground: Ground, policy: Policy, accepts: Accepts) -> None:
        """Take a policy if it is better than the best so far, and acceptable."""
        cost = total_s(ground, policy)
        better = self.policy is None or (cost, order(policy)) < (self.total_s, order(self.policy))
        if better and accepts(policy):
            self.policy, self.total_s = policy, cost


def order(policy: Policy) -> tuple[int, ...]:
    """Which of equal policies comes first."""
    o, s, l, m_s, m_l, _, b_s, b_l = policy  # noqa: E741
    return (m_s, m_l, o, -1 if s is None else s, -1 if l is None else l, b_s, b_l)


def optimum(ground: Ground, *, prune: bool = True, accepts: Accepts = lambda _: True) -> Found:
    """The policy with the least T_total among those that ``accepts`` lets pass; none where there is none.

    Of each row and each choice of who has samples, ``accepts`` sees the best samples only.
    """
    found = Found()
    for bound_s, several in _batches(ground) if prune else [(0.0, [trio]) for trio in trios(ground)]:
        if bound_s <= _limit(found):
            _search(ground, rows_of(ground, several), found, prune, accepts)
    return found


def _limit(found: Found) -> float:
    """The largest bound that is worth looking at."""
    return min(found.total_s * _ROUNDING, float(np.finfo(float).max))


def trios(ground: Ground) -> Iterator[Trio]:
    """All assignments of worker_o, worker_s and worker_l; with fewer than three nodes, worker_s is left out first."""
    nodes = range(len(ground.names))
    match len(nodes):
        case 1:
            yield 0, None, None
        case 2:
            yield from ((o, None, 1 - o) for o in nodes)
        case _:
            yield from itertools.permutations(nodes, 3)


def _batches(ground: Ground) -> list[tuple[float, list[Trio]]]:
    """Assignments to be looked at together, with a lower bound, best first: all, or those of one worker_o and _l."""
    every = list(trios(ground))
    cuts = (ground.depth + 1) * (ground.depth + 2) // 2
    if len(every) == 1 or len(every) * cuts <= _ROWS_AT_ONCE:
        return [(0.0, every)]
    batches: dict[tuple[int, int | None], list[Trio]] = {}
    for trio in every:
        batches.setdefault((trio[0], trio[2]), []).append(trio)
    pairs = list(batches)
    bounds: list[float] = []
    at_once = max(1, _ROWS_AT_ONCE // cuts)
    for k in range(0, len(pairs), at_once):
        rows = _rows_without_s(ground, pairs[k : k + at_once])
        bounds += lower_bound_whoever_is_s(ground, rows).reshape(-1, cuts).min(axis=1).tolist()
    return sorted(zip(bounds, batches.values(), strict=True), key=lambda batch: batch[0])


def _rows_without_s(ground: Ground, pairs: list[tuple[int, int | None]]) -> Rows:
    m_s, m_l = np.triu_indices(ground.depth + 1)
    o, l = (np.repeat(np.array(column, dtype=np.int64), len(m_s)) for column in zip(*pairs, strict=True))  # noqa: E741
    return Rows(o, o, l, np.tile(m_s, len(pairs)), np.tile(m_l, len(pairs)))


def rows_of(ground: Ground, several: list[Trio], *, once: bool = True) -> Rows:
    """All cuts of assignments. One with m = 0 is the same whoever that worker is: ``once`` takes the first only."""
    m_s, m_l = np.triu_indices(ground.depth + 1)
    parts = []
    for o, s, l in several:  # noqa: E741
        others = [node for node in range(min(len(ground.names), 3)) if node != o]
        keep: Flags = np.ones(len(m_s), dtype=bool)
        if s is None:
            keep &= m_s == 0
        elif once and s != next(node for node in others if node != l):
            keep &= m_s > 0
        if l is None:
            keep &= m_l == 0
        elif once and s is not None and [s, l] != others[:2]:
            keep &= m_l > 0
        many = int(keep.sum())
        on_o, on_s, on_l = (np.full(many, o if node is None else node) for node in (o, s, l))
        parts.append(Rows(on_o, on_s, on_l, m_s[keep], m_l[keep]))
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("o", "s", "l", "m_s", "m_l")))


def _search(ground: Ground, rows: Rows, found: Found, prune: bool, accepts: Accepts) -> None:
    if not prune:
        _settle(ground, rows, found, accepts)
        return
    bounds = lower_bound_s(ground, rows)
    ranked: Ints = np.argsort(bounds, kind="stable")
    at = 0
    while at < len(ranked):
        chosen = ranked[at : at + (_MOST if at else _FIRST)]
        at += len(chosen)
        chosen = chosen[bounds[chosen] <= _limit(found)]
        if not len(chosen):
            return
        part = rows.take(chosen)
        finer = relaxed_s(pieces(ground, part, None), domain.relaxed(ground, part), _limit(found))
        _settle_best_first(ground, part, finer, found, accepts)


def _settle_best_first(ground: Ground, rows: Rows, finer_s: Floats, found: Found, accepts: Accepts) -> None:
    """Settle rows a few at a time: the better the best so far, the more of the others fall through the sieve."""
    ranked: Ints = np.argsort(finer_s, kind="stable")
    while len(ranked):
        few, ranked = ranked[:_SETTLED], ranked[_SETTLED:]
        few = few[finer_s[few] <= _limit(found)]
        if not len(few):
            return
        _settle(ground, rows.take(few), found, accepts)


def _settle(ground: Ground, rows: Rows, found: Found, accepts: Accepts) -> None:
    """Offer the best integers of rows, for each choice of who has samples."""
    which: Ints = np.repeat(np.arange(len(rows)), len(PATTERNS))
    flags: list[Flags] = [np.tile(np.array(column), len(rows)) for column in zip(*PATTERNS, strict=True)]
    several = rows.take(which)
    keep = ~(flags[1] & (several.m_s == 0)) & ~(flags[2] & (several.m_l == 0))
    taking = flags[0][keep], flags[1][keep], flags[2][keep]
    several = several.take(keep)
    best = best_samples(pieces(ground, several, taking), domain.settled(ground, several, taking))
    for k in np.argsort(best.total_s, kind="stable"):
        if best.total_s[k] > _limit(found):
            return
        found.offer(ground, _policy(ground, several, int(k), int(best.b_s[k]), int(best.b_l[k])), accepts)


def _policy(ground: Ground, rows: Rows, k: int, b_s: int, b_l: int) -> Policy:
    o, s, l = int(rows.o[k]), int(rows.s[k]), int(rows.l[k])  # noqa: E741
    return Policy(
        o=o,
        s=None if s == o else s,
        l=None if l == o else l,
        m_s=int(rows.m_s[k]),
        m_l=int(rows.m_l[k]),
        b_o=ground.batch - b_s - b_l,
        b_s=b_s,
        b_l=b_l,
    )
