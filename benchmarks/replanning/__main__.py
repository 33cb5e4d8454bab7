"""Training over links that change: one plan for the mean, re-planning, and plans for nine of ten moments.

    python -m benchmarks.replanning [--traces FOLDER] [--iterations N] [--rows FILE] [--only NAME]

Each is played on the event clock over each trace, and compared with the plan that turns out to be the best for it: the
best of those that are made for sixteenths to sixteen times its mean, and of the device alone. With ``--rows``, worlds
that the file has are not played again, and every new one is added to it: a benchmark in several sittings.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.replanning.driving import Driven, fixed, replanned
from benchmarks.replanning.worlds import FOLDER, RATIOS, World, whole_on_device, world
from palmette.control.adapt.link_history import with_measured_bandwidth
from palmette.spec.link_csv import read_trace
from palmette.spec.link_trace import BandwidthTrace
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
        "iterations": iterations,
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
    made.add_argument("--rows", type=Path, help="a file (JSON, a line a world) to go on from, and to add to")
    made.add_argument("--only", default="", help="traces whose names contain this")
    asked = made.parse_args()
    files = [] if asked.quick else sorted(path for path in asked.traces.glob("*.csv") if asked.only in path.stem)
    traces = {path.stem: read_trace(path) for path in files} or {"made up": made_trace()}
    many, doublings = (QUICK_ITERATIONS, QUICK_DOUBLINGS) if asked.quick else (asked.iterations, DOUBLINGS)
    wanted = [(name, ratio, many) for name in traces for ratio in RATIOS[: 1 if asked.quick else None]]
    rows = _kept(asked.rows)
    for name, ratio, _ in [key for key in wanted if key not in rows]:
        found = row(world(name, traces[name], ratio), many, doublings)
        rows[name, ratio, many] = found
        _keep(found, asked.rows)
        progress(f"{name}, device {ratio:g} times a split: {found['time']}, {found['changes']} changes")
    played = [rows[key] for key in wanted]
    print_result({"summary": summary(played), "worlds": played})


def _kept(path: Path | None) -> dict[tuple[str, float, int], dict[str, Any]]:
    """The worlds that were played before, by trace, ratio and iterations."""
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(each["trace"], each["ratio"], each["iterations"]): each for each in rows}


def _keep(found: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
