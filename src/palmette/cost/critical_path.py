"""The least that a graph of operations can take, whatever the order in which its nodes and links serve them.

An operation has a head (nothing before it can be done sooner), its own seconds, and a tail (what follows it at least).
So the longest chain is a bound; and of each node and each link, the best order that may interrupt: serve what is ready
and has the longest tail (Jackson's rule), which no other order beats.

    head ├──────┤ own ├───┤ tail ├─────────┤

It takes a small part of the clock's time, since nothing is played.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from palmette.cost.clock import NOWHERE, Graph

Job = tuple[float, float, float]  # head, seconds of its own, tail


def least_s(
    graph: Graph, seconds: Sequence[float], bits: Sequence[float], limits: Sequence[float], capacities: Sequence[float]
) -> float:
    """Seconds that a graph takes at least; what is given is what the clock would play."""
    lasting_s = [
        own_s + size / min(map(capacities.__getitem__, path)) if size and path else own_s
        for own_s, size, path in zip(seconds, bits, graph.path, strict=True)
    ]
    heads, tails = _heads(graph, lasting_s), _tails(graph, lasting_s)
    jobs: dict[tuple[bool, int], list[Job]] = {}
    for number, (node, path) in enumerate(zip(graph.node, graph.path, strict=True)):
        if node != NOWHERE:
            own_s = seconds[number] * graph.share[number] / limits[node]
            jobs.setdefault((True, node), []).append((heads[number], own_s, tails[number]))
        elif bits[number]:
            for resource in path:
                job = (heads[number], bits[number] / capacities[resource], tails[number] + seconds[number])
                jobs.setdefault((False, resource), []).append(job)
    chain_s = max((head_s + own_s for head_s, own_s in zip(heads, lasting_s, strict=True)), default=0.0)
    return max([chain_s, *map(with_interruptions_s, jobs.values())])


def with_interruptions_s(jobs: Iterable[Job]) -> float:
    """When the last tail ends, if one machine serves all jobs and may interrupt them."""
    coming = sorted(jobs)
    waiting: list[tuple[float, float]] = []  # minus the tail, seconds left
    now = done = 0.0
    for number, (head_s, own_s, tail_s) in enumerate(coming):
        now = max(now, head_s)
        heappush(waiting, (-tail_s, own_s))
        until = coming[number + 1][0] if number + 1 < len(coming) else float("inf")
        while waiting and now < until:
            tail, left_s = heappop(waiting)
            end = now + left_s
            if end > until:
                heappush(waiting, (tail, end - until))
                now = until
            else:
                now, done = end, max(done, end - tail)
    return done


def _heads(graph: Graph, lasting_s: Sequence[float]) -> list[float]:
    heads = [0.0] * len(lasting_s)
    for number in graph.in_order:
        for need in graph.after[number]:
            ready_s = heads[need] + lasting_s[need]
            heads[number] = max(heads[number], ready_s)
    return heads


def _tails(graph: Graph, lasting_s: Sequence[float]) -> list[float]:
    tails = [0.0] * len(lasting_s)
    for number in reversed(graph.in_order):
        left_s = tails[number] + lasting_s[number]
        for need in graph.after[number]:
            tails[need] = max(tails[need], left_s)
    return tails
