"""Downhill from a start: samples by line searches to the last sample, then cuts, nodes, branches, lanes and codecs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial

from palmette.plan.hybrid.edits import (
    PARTS,
    edited,
    edits,
    first_in_line,
    in_lanes,
    look_of,
    meeting_at,
    selections,
    spread_over_lanes,
)
from palmette.plan.hybrid.paths import State, joined
from palmette.plan.hybrid.pricing import WORST, Budget, Judge, Objective, Score
from palmette.plan.hybrid.problem import World
from palmette.plan.hybrid.quick_bound import Quick, effort

Move = Callable[[], State | None]
_BETTER = 1 - 1e-9
_LANES = 16
_KICKS = 2
_STARTS, _START_SHARE = 4, 0.2
_AT_A_TIME = 32  # moves that are looked at before the likely ones of them are played
_MOST_PAIRS = 24  # of ways that samples are moved between one by one
_LOOK_SHARE = 0.3  # of the budget, for a price of every start
_TOGETHER = (1, 2, 3, 4, 6)  # lanes that all ways may be spread over at once
MOST_WAYS = 240  # more of them take the event clock too long
_FRUITLESS = 50  # kicks that led to nothing new: all there is has been seen


class Descent:
    """A search for one objective; ``best`` is the best state seen so far, under way from ``at``."""

    def __init__(self, judge: Judge, quick: Quick, objective: Objective, budget: Budget, draw: random.Random) -> None:
        self._judge, self._quick, self._objective = judge, quick, objective
        self._budget, self._draw = budget, draw
        self.best: State | None = None
        self.best_score = WORST

    def score(self, state: State, to_beat: Score = WORST) -> Score:
        """How good a state is; remembers the best. Worst where a quick estimate says that it cannot beat a score."""
        if to_beat != WORST and self._quick.cannot_beat(state, self._objective, to_beat):
            return WORST
        score = self._objective.score(self._judge.cost(state))
        if score < self.best_score:
            self.best, self.best_score = state, score
        return score

    def run(self, starts: list[State]) -> None:
        """Downhill from each start, best first, then from kicked copies of the best until the budget is used up."""
        whole, fruitless = self._budget, 0
        ranked = self._ranked(starts, whole.part(_LOOK_SHARE))
        for state in _unlike(ranked)[:_STARTS]:
            self._budget = whole.part(_START_SHARE)
            if self.score(state) != WORST:
                self._downhill(state)
        self._budget = whole
        if self.best is not None:
            self._downhill(self.best)
        while self._budget.left() and self.best is not None and fruitless < _FRUITLESS:
            priced = self._judge.priced
            kicked = self._kicked(self.best)
            if self.score(kicked) != WORST:
                self._downhill(kicked, thorough=False)
            fruitless = 0 if self._judge.priced > priced else fruitless + 1

    def _ranked(self, starts: list[State], budget: Budget) -> list[State]:
        """Starts, best first, as many as a budget has room for; the likely ones come first."""
        scores: dict[State, Score] = {}
        for state in dict.fromkeys(starts):
            if scores and not budget.left():
                break
            scores[state] = self.score(state, self.best_score)
        return sorted(scores, key=scores.__getitem__)

    def _downhill(self, state: State, thorough: bool = True) -> State:
        """Improve until no move helps."""
        state, improved = self._share_out(state), True
        while improved and self._budget.left():
            improved = False
            for candidate in self._neighbours(state, thorough):
                if not self._budget.left():
                    break
                score = self.score(state)
                if self._is_better(self.score(candidate, score), score):
                    state, improved = self._share_out(candidate), True
                    break
        return state

    @staticmethod
    def _is_better(score: Score, than: Score) -> bool:
        if score[0] != than[0]:
            return score[0] < than[0] * _BETTER
        return score[1] < than[1] * _BETTER

    def _neighbours(self, state: State, thorough: bool) -> Iterator[State]:
        """States that one move leads to: of several ways at once, then of one; either in random order."""
        world = self._judge.world
        several: list[Move] = []
        single: list[Move] = []
        for chosen in selections(state, world):
            alone = len(chosen) == 1 and len(state.ways) > 4
            for edit in edits(state.ways[chosen[0]], world):
                parts = PARTS if thorough and not alone else (1.0, self._draw.choice(PARTS[1:]))
                to = single if len(chosen) == 1 else several
                to += [partial(edited, state, chosen, edit, part, world) for part in parts]
        lanes = {way.lane for way in state.ways}
        if len(lanes) < _LANES:
            several += [partial(in_lanes, state, k, max(lanes) + 1) for k in range(len(state.ways))]
        fits = [many for many in _TOGETHER if many * len(state.ways) <= MOST_WAYS]
        several += [partial(spread_over_lanes, state, many) for many in fits]
        several += [partial(meeting_at, state, node) for node in (None, *world.meeting)]
        single += [partial(first_in_line, state, k) for k in range(1, min(len(state.ways), 5))]
        for moves in (several, single):
            self._draw.shuffle(moves)
            yield from self._likely_first(moves)

    def _likely_first(self, moves: list[Move]) -> Iterator[State]:
        """States that moves lead to: of every few the likely ones, and once all have been seen, the others."""
        later: list[State] = []
        for first in range(0, len(moves), _AT_A_TIME):
            few = [state for move in moves[first : first + _AT_A_TIME] if (state := move()) is not None]
            few.sort(key=self._likely)
            yield from few[: _AT_A_TIME // 4]
            later += few[_AT_A_TIME // 4 :]
        yield from later

    def _likely(self, state: State) -> Score:
        self._judge.spent += effort(state)
        return self._objective.score(self._quick.likely(state))

    def _kicked(self, state: State) -> State:
        """A few random edits."""
        world = self._judge.world
        for _ in range(_KICKS):
            chosen = self._draw.choice(self._kinds(selections(state, world)))
            edit = self._draw.choice(list(edits(state.ways[chosen[0]], world)))
            state = edited(state, chosen, edit, self._draw.choice(PARTS), world) or state
        return state

    def _kinds(self, chosen: list[list[int]]) -> list[list[int]]:
        """Selections of several ways or of one, whichever the dice say: in a fleet there are many more of one."""
        several = [group for group in chosen if len(group) > 1]
        return several if several and self._draw.random() < 0.5 else chosen

    def _share_out(self, state: State) -> State:
        """Move samples between ways of the same source, for all sources alike or for one, to the last sample."""
        improved = True
        while improved and self._budget.left():
            improved = False
            for pairs in self._pairs(state):
                better = self._line_search(state, pairs)
                if better is not state:
                    state, improved = better, True
                    break
        return state

    def _pairs(self, state: State) -> list[list[tuple[int, int]]]:
        """Pairs (from, to) of ways of one source, those that look alike together; and each alone, if they are few."""
        world = self._judge.world
        looks = [(way.lane, look_of(way, world)) for way in state.ways]
        together: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for a, one in enumerate(state.ways):
            for b, other in enumerate(state.ways):
                if a != b and one.source == other.source:
                    together.setdefault((looks[a], looks[b]), []).append((a, b))
        groups = list(together.values())
        alone = [[pair] for group in groups if len(group) > 1 for pair in group]
        return groups + (alone if len(alone) <= _MOST_PAIRS else [])

    def _line_search(self, state: State, pairs: list[tuple[int, int]]) -> State:
        """Move samples along pairs in ever smaller steps, down to one, as long as it helps."""
        step = 1 << max(0, max(state.ways[a].samples for a, _ in pairs).bit_length() - 2)
        kept, score = state, self.score(state)
        while step and self._budget.left():
            candidate = _moved(kept, pairs, step)
            if candidate is not None and self._is_better(self.score(candidate, score), score):
                kept, score = candidate, self.score(candidate)
                if len(candidate.ways) != len(state.ways):
                    break  # a way has run dry, and the numbers of the others have changed
            else:
                step //= 2
        return kept if kept is state else kept._replace(ways=joined(kept.ways))


def _unlike(ranked: list[State]) -> list[State]:
    """Ranked states, the best with each number of lanes first: one that is alike leads to where the other does."""
    firsts: dict[int, State] = {}
    for state in ranked:
        firsts.setdefault(len({way.lane for way in state.ways}), state)
    return list(dict.fromkeys([*firsts.values(), *ranked]))


def _moved(state: State, pairs: list[tuple[int, int]], step: int) -> State | None:
    """``step`` samples from the first to the second way of each pair, as far as there are any."""
    samples = [way.samples for way in state.ways]
    for a, b in pairs:
        many = min(step, samples[a])
        samples[a], samples[b] = samples[a] - many, samples[b] + many
    ways = tuple(way._replace(samples=many) for way, many in zip(state.ways, samples, strict=True) if many)
    moved = state._replace(ways=ways)
    return None if moved == state else moved


def simplest(judge: Judge, objective: Objective, state: State, world: World) -> State:
    """The state without what changes nothing: a meeting node, and 8-bit integers wherever they gain nothing."""
    if state.meet is not None and _as_good(judge, objective, state._replace(meet=None), state):
        state = state._replace(meet=None)
    if not world.lossy:
        return state
    crossing = {(a, b) for way in state.ways for (a, _), (b, _) in zip(way.runs, way.runs[1:], strict=False)}
    crossing |= {(b, a) for a, b in crossing}
    for pair in sorted(crossing - state.plain):
        plainer = state._replace(plain=state.plain | {pair})
        if _as_good(judge, objective, plainer, state):
            state = plainer
    return state


def _as_good(judge: Judge, objective: Objective, other: State, state: State) -> bool:
    """Whether another state is neither worse nor better: one that is better would have been found by all goals."""
    late_s, value = objective.score(judge.cost(other))
    own_late_s, own = objective.score(judge.cost(state))
    return late_s == own_late_s and math.isclose(value, own, rel_tol=1e-9)
