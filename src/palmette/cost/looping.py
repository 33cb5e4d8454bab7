"""Parts of a graph that are played over and over, each at its own pace, on the same nodes and links.

A part begins again as soon as all of its operations are done, whatever the others do:

    part 0   ├─ 1 ─┼─ 2 ─┼─ 3 ─┼─ 4 ─┼─ 5 ─┤
    part 1   ├─── 1 ───┼─── 2 ───┼─── 3 ───┤

All begin at the same moment, as the trees of a run do. Parts whose times are alike stay in step, and so do parts that
queue for the same node; others pass one another. Two that share a link may drift for tens of rounds from sending in
turns to sending side by side, where they stay, a third slower. So each is played a number of rounds, the first half of
which it may take to settle; its pace is that of the rest. All are played twice as long while both halves of the rest
differ, or while two of nearly the same pace have not yet met in every way, one a whole round ahead of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from palmette.cost.clock import Capacities, Clock, Graph, Timing

ROUNDS = 16
_SAME = 0.01
"""Halves that differ by no more than this part of them are the same."""
_IN_STEP = 1e-9
_MOST_ROUNDS = 1024  # of all parts together, and three of each: where some are much slower than others


class Loop(NamedTuple):
    """A part in its steady state: the mean seconds from end to end, and when the operations of one round happen."""

    mean_s: float
    timing: Timing


def play_looping(
    graph: Graph,
    parts: Sequence[range],
    seconds: Sequence[float],
    bits: Sequence[float],
    *,
    limits: Sequence[float],
    capacities: Capacities,
) -> list[Loop]:
    """Play each part of a graph over and over; ``parts`` has the numbers of its operations, the rest is as in ``play``.

    No operation may come after one of another part.
    """
    clock = _LoopingClock(graph, seconds, bits, limits, capacities)
    clock.loop(graph, parts)
    return [Loop(_mean_s(done_s), timing) for done_s, timing in zip(clock.done_s, clock.timings, strict=True) if timing]


class _LoopingClock(Clock):
    def loop(self, graph: Graph, parts: Sequence[range]) -> None:
        """Play the parts of the graph until each has had its rounds, or all together the most."""
        self._waits, self._parts = graph.waits, parts
        self._part = {number: k for k, own in enumerate(parts) for number in own}
        self._first = [[number for number in own if not graph.waits[number]] for own in parts]
        self._left = [len(own) for own in parts]
        self._most = _MOST_ROUNDS + 3 * len(parts)
        self._rounds, self._behind = ROUNDS, len(parts)  # parts that have not had all their rounds
        self._enough = False
        self.done_s: list[list[float]] = [[] for _ in parts]
        self.timings: list[Timing | None] = [None] * len(parts)
        self.run()

    def end(self, now: float, ended: list[int]) -> list[int]:
        """Note the end of operations, and let parts begin again that are done."""
        ready = super().end(now, ended)
        for number in ended:
            part = self._part[number]
            self._left[part] -= 1
            if not self._left[part]:
                ready += self._done(now, part)
        return ready

    def _done(self, now: float, part: int) -> list[int]:
        """Note the end of a round; returns what the next one begins with, none where enough has been played."""
        own, done_s = self._parts[part], self.done_s[part]
        if self._enough and done_s:
            return []
        begun_s = done_s[-1] if done_s else 0.0
        rows = (self.start_s[own.start : own.stop], self.end_s[own.start : own.stop])
        self.timings[part] = Timing(*([each - begun_s for each in row] for row in rows))
        done_s.append(now)
        self._most -= 1
        self._behind -= len(done_s) == self._rounds
        while not self._behind and not self._enough:
            self._enough = have_settled(self.done_s, self._rounds)
            self._rounds *= 2
            self._behind = sum(len(each) < self._rounds for each in self.done_s)
        self._enough = self._enough or self._most <= 0
        if self._enough:
            return []
        self._left[part] = len(own)
        self.missing[own.start : own.stop] = self._waits[own.start : own.stop]
        return self._first[part]


def have_settled(parts_s: Sequence[Sequence[float]], rounds: int) -> bool:
    """Whether parts that have been played so many rounds will go on as they do; ``parts_s`` are the ends of these."""
    return all(map(_is_settled, parts_s)) and _have_met(parts_s, rounds)


def _is_settled(done_s: Sequence[float]) -> bool:
    """Whether the rounds of the later half took as long in its first half as in its second."""
    quarter = len(done_s) // 4
    before_s, later_s = done_s[-1 - quarter] - done_s[-1 - 2 * quarter], done_s[-1] - done_s[-1 - quarter]
    return abs(later_s - before_s) <= _SAME * before_s


def _have_met(parts_s: Sequence[Sequence[float]], rounds: int) -> bool:
    """Whether parts that are not in step have come a whole round apart, so that each has met the other everywhere."""
    paces_s = sorted((done_s[-1] - done_s[-1 - len(done_s) // 4]) / (len(done_s) // 4) for done_s in parts_s)
    return all(late - soon <= _IN_STEP * late or rounds * (late - soon) >= late for soon, late in pairwise(paces_s))


def _mean_s(done_s: Sequence[float]) -> float:
    """The mean time between two ends, without the first half, in which parts settle."""
    settled = len(done_s) // 2
    begun_s = done_s[settled - 1] if settled else 0.0
    return (done_s[-1] - begun_s) / (len(done_s) - settled)
