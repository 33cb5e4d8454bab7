"""Downhill from a start: samples by line searches to the last sample, then cuts, nodes, branches, lanes and codecs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

from palmette.plan.hybrid_search.edits import (
    PARTS,
    edited,
    edits,
    first_in_line,
    in_lanes,
    look_of,
    selections,
)
from palmette.plan.hybrid_search.glance import Glance
from palmette.plan.hybrid_search.judge import WORST, Budget, Judge, Objective, Score
from palmette.plan.hybrid_search.paths import State, joined
from palmette.plan.hybrid_search.world import World

Move = Callable[[], State | None]
_BETTER = 1 - 1e-9
_LANES = 16
_KICKS = 2
_STARTS, _START_SHARE = 4, 0.2
_FRUITLESS = 50  # kicks that led to nothing new: all there is has been seen


class Descent:
    """A search for one objective; ``best`` is the best state seen so far, under way from ``at``."""

    def __init__(self, judge: Judge, objective: Objective, budget: Budget, draw: random.Random) -> None:
        self._judge, self._objective, self._budget, self._draw = judge, objective, budget, draw
        self._glance = Glance(judge.world)
        self._only_time = dict(objective.weights) == {"time": 1.0} and objective.deadline_s is None
        self.best: State | None = None
        self.best_score = WORST

    def score(self, state: State, to_beat: Score = WORST) -> Score:
        """How good a state is; remembers the best. Worst where a glance says that it cannot beat a score."""
        self._judge.spent += 2 * len(state.ways)
        if self._only_time and to_beat != WORST and self._glance.least_s(state) >= to_beat[1]:
            return WORST
        score = self._objective.score(self._judge.cost(state))
        if score < self.best_score:
            self.best, self.best_score = state, score
        return score

    def run(self, starts: list[State]) -> None:
        """Downhill from each start, best first, then from kicked copies of the best until the budget is used up."""
        ranked = sorted(dict.fromkeys(starts), key=lambda state: self.score(state, self.best_score))
        whole, fruitless = self._budget, 0
        for state in ranked[:_STARTS]:
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
        single += [partial(first_in_line, state, k) for k in range(1, min(len(state.ways), 5))]
        for moves in (several, single):
            self._draw.shuffle(moves)
            yield from (candidate for move in moves if (candidate := move()) is not None)

    def _kicked(self, state: State) -> State:
        """A few random edits."""
        world = self._judge.world
        for _ in range(_KICKS):
            chosen = self._draw.choice(selections(state, world))
            edit = self._draw.choice(list(edits(state.ways[chosen[0]], world)))
            state = edited(state, chosen, edit, self._draw.choice(PARTS), world) or state
        return state

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
        """Pairs (from, to) of ways of one source, those that look alike together."""
        world = self._judge.world
        looks = [(way.lane, look_of(way, world)) for way in state.ways]
        together: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for a, one in enumerate(state.ways):
            for b, other in enumerate(state.ways):
                if a != b and one.source == other.source:
                    together.setdefault((looks[a], looks[b]), []).append((a, b))
        groups = list(together.values())
        return groups + [[pair] for group in groups if len(group) > 1 for pair in group]

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
        return kept if kept is state else State(joined(kept.ways), kept.plain)


def _moved(state: State, pairs: list[tuple[int, int]], step: int) -> State | None:
    """``step`` samples from the first to the second way of each pair, as far as there are any."""
    samples = [way.samples for way in state.ways]
    for a, b in pairs:
        many = min(step, samples[a])
        samples[a], samples[b] = samples[a] - many, samples[b] + many
    ways = tuple(way._replace(samples=many) for way, many in zip(state.ways, samples, strict=True) if many)
    moved = State(ways, state.plain)
    return None if moved == state else moved


def without_needless_codecs(judge: Judge, objective: Objective, state: State, world: World) -> State:
    """The state with outputs as they are wherever 8-bit integers gain nothing."""
    if world.lossless:
        return state
    crossing = {(a, b) for way in state.ways for (a, _), (b, _) in zip(way.runs, way.runs[1:], strict=False)}
    crossing |= {(b, a) for a, b in crossing}
    for pair in sorted(crossing - state.plain):
        plainer = State(state.ways, state.plain | {pair})
        if objective.score(judge.cost(plainer)) <= objective.score(judge.cost(state)):
            state = plainer
    return state
