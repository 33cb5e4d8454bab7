"""The event clock: plays a graph of calls and transfers, and says when each starts and ends.

A node runs calls in parallel while their CPU shares add up to at most its limit; the others queue, first
come first served (ties in the order of the graph). A transfer shares its resources fairly with the others under way
(see ``sharing``), or takes what they leave if it is in the background (``priorities``); its last bit arrives a latency
later. One that is behind another begins when that one's last bit has left. It may hold nodes, which compute nothing
meanwhile: it queues at them like a call that takes all of their CPU, and begins when it is its turn at each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

from palmette.cost.priorities import flows_over
from palmette.cost.sharing import Path

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
        self.holds: dict[int, tuple[int, ...]] = {}
        self.behind: dict[int, int] = {}

    def add_call(self, after: Sequence[int], node: int, share: float) -> None:
        """Append computing on a node with a CPU share."""
        self._add(after, node, share, ())

    def add_transfer(
        self,
        after: Sequence[int],
        path: Path,
        *,
        background: bool = False,
        holds: tuple[int, ...] = (),
        behind: int | None = None,
    ) -> None:
        """Append a transfer over the resources of a path; one in the background gives way to those that are not.

        The nodes that it holds compute nothing while its bits are carried. It begins once the transfer that it is
        behind has left.
        """
        if behind is not None:
            self.behind[len(self.after)] = behind
        if background:
            self.background.add(len(self.after))
        if holds:
            self.holds[len(self.after)] = holds
        self._add(after, NOWHERE, 0.0, path)

    def add_copy(self, other: Graph, number: int, after: Sequence[int], begin: int) -> None:
        """Append an operation like one of another graph, whose first has the number ``begin`` here, after others."""
        if number in other.behind:
            self.behind[len(self.after)] = begin + other.behind[number]
        if number in other.background:
            self.background.add(len(self.after))
        if number in other.holds:
            self.holds[len(self.after)] = other.holds[number]
        self._add(after, other.node[number], other.share[number], other.path[number])

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
    def in_order(self) -> list[int]:
        """All operations, each after those that it waits for."""
        missing = self.needs.copy()
        found = [number for number, many in enumerate(missing) if not many]
        for number in found:  # grows meanwhile
            for following in self.following[number]:
                missing[following] -= 1
                if not missing[following]:
                    found.append(following)
        return found

    @cached_property
    def needs(self) -> list[int]:
        """For each operation, how many it comes after."""
        return list(map(len, self.after))

    @cached_property
    def waits(self) -> list[int]:
        """For each operation, how many it waits for: those that it comes after, and the one that it is behind."""
        return [many + (number in self.behind) for number, many in enumerate(self.needs)] if self.behind else self.needs

    @cached_property
    def next_to_leave(self) -> dict[int, list[int]]:
        """For each transfer with others behind it, those."""
        found: dict[int, list[int]] = {}
        for number, before in self.behind.items():
            found.setdefault(before, []).append(number)
        return found

    @cached_property
    def hosts(self) -> list[int]:
        """The nodes that compute, or that transfers hold."""
        held = [node for nodes in self.holds.values() for node in nodes]
        return [node for node in dict.fromkeys((*self.node, *held)) if node != NOWHERE]


CapacityChange = tuple[float, int, float]
"""When a resource changes, its number, and its capacity from then on (bit/s)."""
_NO_CHANGES: Iterator[CapacityChange] = iter(())


class Capacities(NamedTuple):
    """Of the resources (bit/s) at first, and what they change to, in the order of time.

    Where they change, ``later`` gives those from a later moment on, so that none has to be played while nothing is
    carried.
    """

    bps: Sequence[float]
    changes: Iterator[CapacityChange] = _NO_CHANGES
    later: Callable[[float], Capacities] | None = None


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
    capacities: Capacities,
) -> Timing:
    """Play a graph. A call takes its ``seconds``; a transfer carries its ``bits``, and its seconds are its latency.

    ``limits`` are the CPU shares that each node may use.
    """
    clock = Clock(graph, seconds, bits, limits, capacities)
    clock.run()
    return Timing(clock.start_s, clock.end_s)


class Clock:
    """A graph as it is played, from the first moment to the last."""

    def __init__(
        self,
        graph: Graph,
        seconds: Sequence[float],
        bits: Sequence[float],
        limits: Sequence[float],
        capacities: Capacities,
    ) -> None:
        self._rates, self._changes, self._later = list(capacities.bps), capacities.changes, capacities.later
        flows = flows_over(self._rates, graph.background)
        self._node, self._share, self._path, self._next = graph.node, graph.share, graph.path, graph.following
        self._seconds, self._bits, self._flows = seconds, bits, flows
        self._holds, self._limits, self._carrying = graph.holds, limits, False
        self.start_s = [0.0] * len(graph.after)
        self.end_s = [0.0] * len(graph.after)
        self.missing, self._leaving = graph.waits.copy(), graph.next_to_leave
        self._free = {node: limits[node] + _SLACK for node in graph.hosts}
        self._queues: dict[int, deque[int]] = {node: deque() for node in graph.hosts}
        self._events: list[tuple[float, int]] = []

    def run(self) -> None:
        """Play until nothing is left to happen."""
        events, flows, seconds = self._events, self._flows, self._seconds
        self._start(0.0, [number for number, missing in enumerate(self.missing) if not missing])
        carried_s = flows.share(0.0) if self._carrying else _NEVER
        change = next(self._changes, None)
        while events or carried_s < _NEVER or (change is not None and flows.resources()):
            if change is not None and carried_s == _NEVER and events and change[0] < events[0][0]:
                change = change if flows.resources() else self._skip_to(events[0][0])
            now = carried_s if not events or carried_s < events[0][0] else events[0][0]
            now = now if change is None else min(now, change[0])
            soon = now * _TOGETHER
            self._carrying = carried_s <= soon
            left = flows.end(now, soon) if self._carrying else []  # before a link changes, perhaps to nothing
            while change is not None and change[0] <= soon:
                self._rates[change[1]] = change[2]
                flows.renew(change[1], now)
                change, self._carrying = next(self._changes, None), True
            ready: list[int] = []
            for number in left:
                heappush(events, (now + seconds[number], number))
                if number in self._holds:
                    self._let_go(now, number)
                if number in self._leaving:
                    ready += self._freed(self._leaving[number])
            ended = []
            while events and events[0][0] <= soon:
                ended.append(heappop(events)[1])
            self._start(now, ready + self.end(now, ended))
            if self._carrying:
                carried_s = flows.share(now)
        assert not any(self.missing), "an operation waits for itself, or asks for more CPU than its node may use"

    def _skip_to(self, moment_s: float) -> CapacityChange | None:
        """Take the capacities of a moment until which nothing is carried; returns the first change after it."""
        assert self._later is not None
        self._rates[:], self._changes, _ = self._later(moment_s)
        for resource in range(len(self._rates)):
            self._flows.renew(resource, moment_s)
        return next(self._changes, None)

    def end(self, now: float, ended: list[int]) -> list[int]:
        """Note the end of operations; returns those that can start now."""
        missing, ready = self.missing, []
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

    def _freed(self, numbers: list[int]) -> list[int]:
        """Those of some transfers that wait for nothing else, now that the one before them has left."""
        for number in numbers:
            self.missing[number] -= 1
        return [number for number in numbers if not self.missing[number]]

    def _start(self, now: float, ready: list[int]) -> None:
        """Start operations or let them wait their turn."""
        if len(ready) > 1:
            ready.sort()
            if self._holds:
                ready.sort(key=lambda number: number not in self._holds)  # what is ready leaves before more is computed
        for number in ready:
            node = self._node[number]
            if node >= 0:
                self._queues[node].append(number)
                self._take_turns(now, node)
            elif self._bits[number] and number in self._holds:
                for held in self._holds[number]:
                    self._queues[held].append(number)
                self._take_turns(now, self._holds[number][0])
            else:
                self._begin(now, number)
                if not self._bits[number] and number in self._leaving:  # it carries nothing, so it has left
                    ready += self._freed(self._leaving[number])

    def _begin(self, now: float, number: int) -> None:
        """Begin a transfer, or what takes no node."""
        self.start_s[number] = now
        if self._bits[number]:
            self._flows.begin(number, self._path[number], self._bits[number], now)
            self._carrying = True
        else:
            heappush(self._events, (now + self._seconds[number], number))

    def _take_turns(self, now: float, node: int) -> None:
        """Start what is at the head of a node's queue and has room: calls, and transfers that hold it."""
        queue, shares = self._queues[node], self._share
        while queue:
            number = queue[0]
            if number in self._holds:
                if not self._hold(number):
                    return
                self._begin(now, number)
            elif shares[number] <= self._free[node]:
                queue.popleft()
                self._free[node] -= shares[number]
                self.start_s[number] = now
                heappush(self._events, (now + self._seconds[number], number))
            else:
                return

    def _hold(self, number: int) -> bool:
        """Take all nodes that a transfer holds, if it is its turn at each and they are free."""
        nodes = self._holds[number]
        if any(self._queues[node][0] != number or self._free[node] < self._limits[node] for node in nodes):
            return False
        for node in nodes:
            self._queues[node].popleft()
            self._free[node] -= self._limits[node]
        return True

    def _let_go(self, now: float, number: int) -> None:
        """Give back the nodes that a transfer held."""
        for node in self._holds[number]:
            self._free[node] += self._limits[node]
        for node in self._holds[number]:
            self._take_turns(now, node)
