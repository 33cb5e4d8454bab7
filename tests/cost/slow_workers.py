"""A slow, obviously right twin of asynchronous workers: exact fractions, all rates anew at every event.

Each worker pulls weights from the server, computes, pushes gradients, and the server updates, first come first served;
then it begins again. It shares no code with ``palmette.cost``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

Resource = tuple[str, str]


@dataclass
class Worker:
    """A worker: the links from the server to it, in order, seconds of computing, bits and latency each way."""

    down: list[Resource]
    up: list[Resource]
    compute_s: Fraction
    bits: Fraction
    latency_s: Fraction = Fraction(0)
    stage: str = "pull"
    left: Fraction = Fraction(0)
    ends: list[Fraction] = field(default_factory=list)


def mean_step_s(workers: list[Worker], capacity: dict[Resource, Fraction], update_s: Fraction, rounds: int) -> Fraction:
    """Seconds from one step of any worker to the next, once the slowest has taken so many."""
    now, queue = Fraction(0), list[Worker]()
    for worker in workers:
        worker.left = worker.bits
    while min(len(worker.ends) for worker in workers) < rounds:
        rates = _rates([w for w in workers if w.stage in ("pull", "push")], capacity)
        until = [_until(w, rates, queue) for w in workers]
        soonest = min(each for each in until if each is not None)
        now += soonest
        for worker, each in zip(workers, until, strict=True):
            if worker.stage in ("pull", "push"):
                worker.left -= soonest * rates[id(worker)]
            elif each is not None:
                worker.left -= soonest
        for worker, each in zip(workers, until, strict=True):
            if each == soonest:
                _next(worker, queue, update_s, now)
    means = [(w.ends[-1] - w.ends[len(w.ends) // 2 - 1]) / (len(w.ends) - len(w.ends) // 2) for w in workers]
    return 1 / sum((1 / mean for mean in means), Fraction(0))


def _until(worker: Worker, rates: dict[int, Fraction], queue: list[Worker]) -> Fraction | None:
    """Seconds until the worker's stage ends, if nothing changes; None while it waits for the server."""
    if worker.stage in ("pull", "push"):
        return worker.left / rates[id(worker)]
    return None if worker.stage == "update" and queue[0] is not worker else worker.left


def _next(worker: Worker, queue: list[Worker], update_s: Fraction, now: Fraction) -> None:
    stages = {
        "pull": ("pulled", worker.latency_s),
        "pulled": ("compute", worker.compute_s),
        "compute": ("push", worker.bits),
        "push": ("pushed", worker.latency_s),
        "pushed": ("update", update_s),
        "update": ("pull", worker.bits),
    }
    if worker.stage == "update":
        queue.remove(worker)
        worker.ends.append(now)
    worker.stage, worker.left = stages[worker.stage]
    if worker.stage == "update":
        queue.append(worker)


def _rates(sending: list[Worker], capacity: dict[Resource, Fraction]) -> dict[int, Fraction]:
    """Max-min fair: the tightest resource's share to all over it, then the next."""
    free, growing, rates = dict(capacity), list(sending), dict[int, Fraction]()
    while growing:
        paths = {id(w): w.down if w.stage == "pull" else w.up for w in growing}
        used = {resource for path in paths.values() for resource in path}
        share = {r: free[r] / sum(r in path for path in paths.values()) for r in used}
        tightest = min(share, key=lambda r: (share[r], r))
        for worker in [w for w in growing if tightest in paths[id(w)]]:
            rates[id(worker)] = share[tightest]
            growing.remove(worker)
            for resource in paths[id(worker)]:
                free[resource] -= share[tightest]
    return rates
