"""Local search from a start: samples by line searches, then cuts, nodes, branches, microbatches and codecs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial

from palmette.plan.core.order import WHOLE_BACKWARD
from palmette.plan.hybrid.edits import (
    PARTS,
    edited,
    edits,
    selections,
    shape_of,
    split_into_microbatches,
    split_off_microbatch,
    with_first_path,
    with_meeting_node,
    with_order,
)
from palmette.plan.hybrid.paths import SearchState, joined
from palmette.plan.hybrid.pricing import WORST, Budget, Objective, Pricer, Score
from palmette.plan.hybrid.problem import HybridProblem
from palmette.plan.hybrid.quick_bound import QuickBound, effort

Move = Callable[[], SearchState | None]
_BETTER = 1 - 1e-9
_MICROBATCHES = 16
_PERTURBATIONS = 2
_STARTS, _START_SHARE = 4, 0.2
_AT_A_TIME = 32  # moves with a quick estimate before the most promising of them are played
_MOST_PAIRS = 24  # pairs of paths between which samples are moved one pair at a time
_START_PRICES_SHARE = 0.3  # of the budget, to price the starts
_TOGETHER = (1, 2, 3, 4, 6)  # numbers of microbatches that all paths may be split into at once
MOST_PATHS = 240  # with more of them the event clock takes too long
_FRUITLESS = 50  # perturbations in a row that led to no new state: the search is exhausted


class Descent:
    """A search for one objective; ``best`` is the best state seen so far."""

    def __init__(
        self, pricer: Pricer, quick_bound: QuickBound, objective: Objective, budget: Budget, draw: random.Random
    ) -> None:
        self._pricer, self._quick_bound, self._objective = pricer, quick_bound, objective
        self._budget, self._draw = budget, draw
        self.best: SearchState | None = None
        self.best_score = WORST

    def score(self, state: SearchState, to_beat: Score = WORST) -> Score:
        """How good a state is; remembers the best. Worst where the quick bound says that it cannot beat a score."""
        if to_beat != WORST and self._quick_bound.cannot_beat(state, self._objective, to_beat):
            return WORST
        score = self._objective.score(self._pricer.cost(state))
        if score < self.best_score:
            self.best, self.best_score = state, score
        return score

    def run(self, starts: list[SearchState]) -> None:
        """Descend from each start, best first, then from perturbed copies of the best until the budget is used up."""
        whole, fruitless = self._budget, 0
        ranked = self._ranked(starts, whole.part(_START_PRICES_SHARE))
        for state in _diverse(ranked)[:_STARTS]:
            self._budget = whole.part(_START_SHARE)
            if self.score(state) != WORST:
                self._descend(state)
        self._budget = whole
        if self.best is not None:
            self._descend(self.best)
        while self._budget.left() and self.best is not None and fruitless < _FRUITLESS:
            priced = self._pricer.priced
            perturbed = self._perturbed(self.best)
            if self.score(perturbed) != WORST:
                self._descend(perturbed, thorough=False)
            fruitless = 0 if self._pricer.priced > priced else fruitless + 1

    def _ranked(self, starts: list[SearchState], budget: Budget) -> list[SearchState]:
        """Starts that a budget allows to price, best first; they are priced in their order."""
        scores: dict[SearchState, Score] = {}
        for state in dict.fromkeys(starts):
            if scores and not budget.left():
                break
            scores[state] = self.score(state, self.best_score)
        return sorted(scores, key=scores.__getitem__)

    def _descend(self, state: SearchState, thorough: bool = True) -> SearchState:
        """Improve until no move helps."""
        state, improved = self._balance_samples(state), True
        while improved and self._budget.left():
            improved = False
            for candidate in self._neighbours(state, thorough):
                if not self._budget.left():
                    break
                score = self.score(state)
                if self._is_better(self.score(candidate, score), score):
                    state, improved = self._balance_samples(candidate), True
                    break
        return state

    @staticmethod
    def _is_better(score: Score, than: Score) -> bool:
        if score[0] != than[0]:
            return score[0] < than[0] * _BETTER
        return score[1] < than[1] * _BETTER

    def _neighbours(self, state: SearchState, thorough: bool) -> Iterator[SearchState]:
        """States that one move leads to: of several paths at once, then of one; either in random order."""
        problem = self._pricer.problem
        several: list[Move] = []
        single: list[Move] = []
        for chosen in selections(state, problem):
            alone = len(chosen) == 1 and len(state.paths) > 4
            for edit in edits(state.paths[chosen[0]], problem):
                parts = PARTS if thorough and not alone else (1.0, self._draw.choice(PARTS[1:]))
                to = single if len(chosen) == 1 else several
                to += [partial(edited, state, chosen, edit, part, problem) for part in parts]
        microbatches = {path.microbatch for path in state.paths}
        if len(microbatches) < _MICROBATCHES:
            several += [partial(split_off_microbatch, state, k, max(microbatches) + 1) for k in range(len(state.paths))]
        fits = [many for many in _TOGETHER if many * len(state.paths) <= MOST_PATHS]
        several += [partial(split_into_microbatches, state, many) for many in fits]
        several += [partial(with_meeting_node, state, node) for node in (None, *problem.meeting_nodes)]
        several += [partial(with_order, state, order) for order in WHOLE_BACKWARD]
        single += [partial(with_first_path, state, k) for k in range(1, min(len(state.paths), 5))]
        for moves in (several, single):
            self._draw.shuffle(moves)
            yield from self._promising_first(moves)

    def _promising_first(self, moves: list[Move]) -> Iterator[SearchState]:
        """States that moves lead to: of every few the most promising, and once all have been seen, the others."""
        later: list[SearchState] = []
        for first in range(0, len(moves), _AT_A_TIME):
            few = [state for move in moves[first : first + _AT_A_TIME] if (state := move()) is not None]
            few.sort(key=self._promise)
            yield from few[: _AT_A_TIME // 4]
            later += few[_AT_A_TIME // 4 :]
        yield from later

    def _promise(self, state: SearchState) -> Score:
        self._pricer.spent += effort(state)
        return self._objective.score(self._quick_bound.likely(state))

    def _perturbed(self, state: SearchState) -> SearchState:
        """A few random edits."""
        problem = self._pricer.problem
        for _ in range(_PERTURBATIONS):
            chosen = self._draw.choice(self._kinds(selections(state, problem)))
            edit = self._draw.choice(list(edits(state.paths[chosen[0]], problem)))
            state = edited(state, chosen, edit, self._draw.choice(PARTS), problem) or state
        return state

    def _kinds(self, chosen: list[list[int]]) -> list[list[int]]:
        """Selections of several paths or of one, at random: in a fleet there are many more of one."""
        several = [group for group in chosen if len(group) > 1]
        return several if several and self._draw.random() < 0.5 else chosen

    def _balance_samples(self, state: SearchState) -> SearchState:
        """Move samples between paths of the same source, for all sources at once or for one, down to single samples."""
        improved = True
        while improved and self._budget.left():
            improved = False
            for pairs in self._pairs(state):
                better = self._line_search(state, pairs)
                if better is not state:
                    state, improved = better, True
                    break
        return state

    def _pairs(self, state: SearchState) -> list[list[tuple[int, int]]]:
        """Pairs (from, to) of paths of one source, of the same shapes together; and each alone, if they are few."""
        problem = self._pricer.problem
        shapes = [(path.microbatch, shape_of(path, problem)) for path in state.paths]
        together: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for a, one in enumerate(state.paths):
            for b, other in enumerate(state.paths):
                if a != b and one.source == other.source:
                    together.setdefault((shapes[a], shapes[b]), []).append((a, b))
        groups = list(together.values())
        alone = [[pair] for group in groups if len(group) > 1 for pair in group]
        return groups + (alone if len(alone) <= _MOST_PAIRS else [])

    def _line_search(self, state: SearchState, pairs: list[tuple[int, int]]) -> SearchState:
        """Move samples along pairs in ever smaller steps, down to one, as long as it helps."""
        step = 1 << max(0, max(state.paths[a].samples for a, _ in pairs).bit_length() - 2)
        kept, score = state, self.score(state)
        while step and self._budget.left():
            candidate = _moved(kept, pairs, step)
            if candidate is not None and self._is_better(self.score(candidate, score), score):
                kept, score = candidate, self.score(candidate)
                if len(candidate.paths) != len(state.paths):
                    break  # a path has no samples left, and the numbers of the others have changed
            else:
                step //= 2
        return kept if kept is state else kept._replace(paths=joined(kept.paths))


def _diverse(ranked: list[SearchState]) -> list[SearchState]:
    """Ranked states, the best with each number of microbatches first: similar starts end in the same optimum."""
    firsts: dict[int, SearchState] = {}
    for state in ranked:
        firsts.setdefault(len({path.microbatch for path in state.paths}), state)
    return list(dict.fromkeys([*firsts.values(), *ranked]))


def _moved(state: SearchState, pairs: list[tuple[int, int]], step: int) -> SearchState | None:
    """``step`` samples from the first to the second path of each pair, as far as there are any."""
    samples = [path.samples for path in state.paths]
    for a, b in pairs:
        many = min(step, samples[a])
        samples[a], samples[b] = samples[a] - many, samples[b] + many
    paths = tuple(path._replace(samples=many) for path, many in zip(state.paths, samples, strict=True) if many)
    moved = state._replace(paths=paths)
    return None if moved == state else moved


def simplest(pricer: Pricer, objective: Objective, state: SearchState, problem: HybridProblem) -> SearchState:
    """The state without what changes nothing: microbatches, a meeting node, a lossy codec wherever it gains nothing."""
    whole = state._replace(paths=joined([path._replace(microbatch=0) for path in state.paths]))
    if whole != state and _as_good(pricer, objective, whole, state):
        state = whole
    if state.meet is not None and _as_good(pricer, objective, state._replace(meet=None), state):
        state = state._replace(meet=None)
    if not problem.lossy:
        return state
    crossing = {(a, b) for path in state.paths for (a, _), (b, _) in zip(path.runs, path.runs[1:], strict=False)}
    crossing |= {(b, a) for a, b in crossing}
    for pair in sorted(crossing - state.plain):
        plainer = state._replace(plain=state.plain | {pair})
        if _as_good(pricer, objective, plainer, state):
            state = plainer
    return state


def _as_good(pricer: Pricer, objective: Objective, other: SearchState, state: SearchState) -> bool:
    """Whether another state is no worse; it may be better, since scales and labels can make small messages larger."""
    late_s, value = objective.score(pricer.cost(other))
    own_late_s, own = objective.score(pricer.cost(state))
    return late_s <= own_late_s and (value <= own or math.isclose(value, own, rel_tol=1e-9))
