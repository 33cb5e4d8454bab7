"""The event clock: plays a graph of calls and transfers, and says when each starts and ends.

A node runs calls in parallel while their CPU shares add up to at most its limit; the others queue, first
come first served (ties in the order of the graph). A transfer shares its resources fairly with the others under way
(see ``sharing``), or takes what they leave if it is in the background (``priorities``); its last bit arrives a latency
later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

from palmette.cost.priorities import PrioritizedFlows, flows_over
from palmette.cost.sharing import Flows, Path

_TOGETHER = 1 + 1e-12  # events closer than this part of the time are one moment
_SLACK = 1e-9  # for shares that add up to 1 but for rounding
_NEVER = float("inf")
NOWHERE = -1


class Graph:
    """Operations to play, whatever their times: which comes after which, where calls run, which path transfers take.

    Made once, it can be played thousands of times with other times and sizes.
    """

    def __init__(self) -> None:
        self.after: list[Sequence[int]] = []
        self.node: list[int] = []
        self.share: list[float] = []
        self.path: list[Path] = []
        self.background: set[int] = set()

    def add_call(self, after: Sequence[int], node: int, share: float) -> None:
        """Append computing on a node with a CPU share."""
        self._add(after, node, share, ())

    def add_transfer(self, after: Sequence[int], path: Path, *, background: bool = False) -> None:
        """Append a transfer over the resources of a path; one in the background gives way to those that are not."""
        if background:
            self.background.add(len(self.after))
        self._add(after, NOWHERE, 0.0, path)

    def _add(self, after: Sequence[int], node: int, share: float, path: Path) -> None:
        self.after.append(after)
        self.node.append(node)
        self.share.append(share)
        self.path.append(path)

    @cached_property
    def following(self) -> list[list[int]]:
        """For each operation, those that come after it."""
        following: list[list[int]] = [[] for _ in self.after]
        for number, needs in enumerate(self.after):
            for need in needs:
                following[need].append(number)
        return following

    @cached_property
    def needs(self) -> list[int]:
        """For each operation, how many it comes after."""
        return list(map(len, self.after))

    @cached_property
    def hosts(self) -> list[int]:
        """The nodes that compute."""
        return [node for node in dict.fromkeys(self.node) if node != NOWHERE]


class Timing(NamedTuple):
    """When each operation started and ended."""

    start_s: list[float]
    end_s: list[float]

    @property
    def total_s(self) -> float:
        """The end of the last operation."""
        return max(self.end_s, default=0.0)


def play(
    graph: Graph,
    seconds: Sequence[float],
    bits: Sequence[float],
    limits: Sequence[float],
    capacities: Sequence[float],
) -> Timing:
    """Play a graph. A call takes its ``seconds``; a transfer carries its ``bits``, and its seconds are its latency.

    ``limits`` are the CPU shares that each node may use, ``capacities`` those of the resources (bit/s).
    """
    clock = _Clock(graph, seconds, bits, limits, flows_over(capacities, graph.background))
    clock.run()
    return Timing(clock.start_s, clock.end_s)


class _Clock:
    def __init__(
        self,
        graph: Graph,
        seconds: Sequence[float],
        bits: Sequence[float],
        limits: Sequence[float],
        flows: Flows | PrioritizedFlows,
    ) -> None:
        self._node, self._share, self._path, self._next = graph.node, graph.share, graph.path, graph.following
        self._seconds, self._bits, self._flows = seconds, bits, flows
        self.start_s = [0.0] * len(graph.after)
        self.end_s = [0.0] * len(graph.after)
        self._missing = graph.needs.copy()
        self._free = {node: limits[node] + _SLACK for node in graph.hosts}
        self._queues: dict[int, deque[int]] = {node: deque() for node in graph.hosts}
        self._events: list[tuple[float, int]] = []

    def run(self) -> None:
        """Play until nothing is left to happen."""
        events, flows, seconds = self._events, self._flows, self._seconds
        begun = self._start(0.0, [number for number, missing in enumerate(self._missing) if not missing])
        carried_s = flows.share(0.0) if begun else _NEVER
        while events or carried_s < _NEVER:
            now = carried_s if not events or carried_s < events[0][0] else events[0][0]
            soon = now * _TOGETHER
            changed = carried_s <= soon
            if changed:
                for number in flows.end(now, soon):
                    heappush(events, (now + seconds[number], number))
            ended = []
            while events and events[0][0] <= soon:
                ended.append(heappop(events)[1])
            if self._start(now, self._end(now, ended)) or changed:
                carried_s = flows.share(now)
        assert not any(self._missing), "an operation waits for itself, or asks for more CPU than its node may use"

    def _end(self, now: float, ended: list[int]) -> list[int]:
        """Note the end of operations; returns those that can start now."""
        missing, ready = self._missing, []
        for number in ended:
            self.end_s[number] = now
            node = self._node[number]
            if node >= 0:
                self._free[node] += self._share[number]
                if self._queues[node]:
                    self._take_turns(now, node)
            for following in self._next[number]:
                missing[following] -= 1
                if not missing[following]:
                    ready.append(following)
        return ready

    def _start(self, now: float, ready: list[int]) -> bool:
        """Start operations or let them wait their turn; returns whether a transfer began."""
        begun = False
        if len(ready) > 1:
            ready.sort()
        for number in ready:
            node = self._node[number]
            if node >= 0:
                self._queues[node].append(number)
                self._take_turns(now, node)
                continue
            self.start_s[number] = now
            if self._bits[number]:
                self._flows.begin(number, self._path[number], self._bits[number], now)
                begun = True
            else:
                heappush(self._events, (now + self._seconds[number], number))
        return begun

    def _take_turns(self, now: float, node: int) -> None:
        """Start the calls at the head of a node's queue that its free CPU has room for."""
        queue, shares = self._queues[node], self._share
        while queue and shares[queue[0]] <= self._free[node]:
            number = queue.popleft()
            self._free[node] -= shares[number]
            self.start_s[number] = now
            heappush(self._events, (now + self._seconds[number], number))
