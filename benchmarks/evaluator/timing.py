"""Timing beside a yardstick, so that figures of a slow or busy machine can be compared with those of another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

_LOOP = 100_000


def yardstick_s() -> float:
    """Seconds of one turn of a plain Python loop."""
    total = 0
    began = perf_counter()
    for i in range(_LOOP):
        total += i * i % 7
    return (perf_counter() - began) / _LOOP


def rates(jobs: dict[str, tuple[Callable[[], Any], int]], rounds: int) -> dict[str, dict[str, Any]]:
    """Calls a second of each job (what to call, calls a round), the rounds of all jobs taking turns."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    loops = [yardstick_s()]
    for _ in range(rounds):
        for name, (call, many) in jobs.items():
            began = perf_counter()
            for _ in range(many):
                call()
            seconds = (perf_counter() - began) / many
            loops.append(yardstick_s())
            taken[name].append((seconds, 2 * seconds / (loops[-2] + loops[-1])))
    low, middle, high = (round(quartile * 1e9, 1) for quartile in statistics.quantiles(loops, n=4))
    yardstick = {"ns_a_turn": middle, "quartiles_ns": [low, high]}
    return {"yardstick": yardstick} | {name: _rate(pairs) for name, pairs in taken.items()}


def fastest_s(call: Callable[[], Any], times: int) -> float:
    """The least seconds of several calls: what is left when nothing disturbs."""
    best = math.inf
    for _ in range(times):
        began = perf_counter()
        call()
        best = min(best, perf_counter() - began)
    return best


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of the straight line through log(seconds) over log(sizes)."""
    return statistics.linear_regression([math.log(x) for x in sizes], [math.log(y) for y in seconds]).slope


def _rate(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    """Figures of one job from its (seconds, turns of the yardstick before and after) a call."""
    seconds, turns = zip(*pairs, strict=True)
    low, middle, high = statistics.quantiles(seconds, n=4)
    return {
        "a_second": round(1 / middle),
        "quartiles_a_second": [round(1 / high), round(1 / low)],
        "fastest_a_second": round(1 / min(seconds)),
        "turns_of_the_yardstick": round(statistics.median(turns)),
    }
