"""Training over links that change: one plan for the mean, re-planning, and plans for nine of ten moments.

    python -m benchmarks.replanning [--traces FOLDER] [--iterations N]

Each is played on the event clock over each trace, and compared with the plan that turns out to be the best for it: the
best of those that are made for sixteenths to sixteen times its mean, and of the device alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.replanning.driving import Driven, fixed, replanned
from benchmarks.replanning.worlds import FOLDER, RATIOS, World, whole_on_device, world
from palmette.control.adapt.link_history import with_measured_bandwidth
from palmette.spec.link_trace import BandwidthTrace, read_trace
from palmette.spec.plan import Phase, Plan

ITERATIONS, QUICK_ITERATIONS = 600, 60
DOUBLINGS, QUICK_DOUBLINGS = 4, 1


def made_trace() -> BandwidthTrace:
    """A link that is slow for two minutes and fast for two, for where there are no measured ones."""
    rates = tuple(2e6 if k % 240 < 120 else 2e7 for k in range(480))
    return BandwidthTrace(time_s=tuple(map(float, range(480))), down_bps=rates)


def row(where: World, iterations: int, doublings: int) -> dict[str, Any]:
    """Seconds and joules of each way of planning, over those of the best plan in hindsight."""
    plan, made = where.plan(where.cluster), dict[Any, Plan]()
    driven = {
        "fixed": fixed(where, plan.phases[0], iterations),
        "replanned": replanned(where, plan, iterations, made),
        "robust": fixed(where, where.plan(where.cluster, robust=0.9).phases[0], iterations),
    }
    best = min((fixed(where, phase, iterations) for phase in _phases(where, doublings)), key=_seconds)
    best = min(best, driven["fixed"], driven["robust"], key=_seconds)
    return {
        "trace": where.name,
        "ratio": where.ratio,
        "hindsight_s": best.spent.time_s,
        "hindsight_j": best.spent.energy_j,
        "changes": driven["replanned"].changes,
        "plans": driven["replanned"].plans,
        "time": {name: each.spent.time_s / best.spent.time_s for name, each in driven.items()},
        "energy": {name: _joules(each) / _joules(best) for name, each in driven.items()},
        "behind_fixed": driven["replanned"].spent.time_s / driven["fixed"].spent.time_s - 1,
    }


def _phases(where: World, doublings: int) -> Iterator[Phase]:
    yield whole_on_device(len(where.profile.layers))
    for k in range(-doublings, doublings + 1):
        yield where.plan(with_measured_bandwidth(where.cluster, {0: 2.0**k, 1: 2.0**k})).phases[0]


def _seconds(driven: Driven) -> float:
    return driven.spent.time_s


def _joules(driven: Driven) -> float:
    return math.nan if driven.spent.energy_j is None else driven.spent.energy_j


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures that are aimed at."""
    behind = {name: [each["time"][name] - 1 for each in rows] for name in ("fixed", "replanned", "robust")}
    return {
        "median_behind_hindsight": {name: statistics.median(found) for name, found in behind.items()},
        "most_behind_hindsight": {name: max(found) for name, found in behind.items()},
        "replanned_behind_fixed_at_most": max(each["behind_fixed"] for each in rows),
        "changes_at_most": max(each["changes"] for each in rows),
    }


def main() -> None:
    """Play all worlds."""
    made = parser(__doc__, "one trace that is made up, a few iterations")
    made.add_argument("--traces", type=Path, default=FOLDER, help="a folder of traces (CSV)")
    made.add_argument("--iterations", type=int, default=ITERATIONS, help="of each training")
    asked = made.parse_args()
    files = [] if asked.quick else sorted(asked.traces.glob("*.csv"))
    traces = {path.stem: read_trace(path) for path in files} or {"made up": made_trace()}
    rows = []
    for name, trace in traces.items():
        for ratio in RATIOS[: 1 if asked.quick else None]:
            where = world(name, trace, ratio)
            many, doublings = (QUICK_ITERATIONS, QUICK_DOUBLINGS) if asked.quick else (asked.iterations, DOUBLINGS)
            rows.append(row(where, many, doublings))
            progress(f"{name}, device {ratio:g} times a split: {rows[-1]['time']}, {rows[-1]['changes']} changes")
    print_result({"summary": summary(rows), "worlds": rows})


if __name__ == "__main__":
    main()
