"""Runs all that is claimed and writes it down.

What has been run since a day (today, unless ``--since`` names one) is not run again, so that the same command goes on
where it was ended. Each benchmark has a budget; one that exceeds it is ended, and its last value stays.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.summary.figures import BENCHMARKS, QUICK_BUDGET_S, Benchmark
from benchmarks.summary.page import put_into, section
from benchmarks.summary.store import STORE, Found, read_values, write_values

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
QUICK_MINUTES = 10.0


def main() -> None:
    """Run, keep and write down."""
    asked = _asked()
    values, size = read_values(asked.values), "quick" if asked.quick else "whole"
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    end_s = time.monotonic() + 60 * (asked.minutes or (QUICK_MINUTES if asked.quick else float("inf")))
    ended: dict[str, list[str]] = {"ran": [], "known": [], "left": [], "failed": []}
    for each in _chosen(asked):
        command, known = each.command(quick=asked.quick), [values[size].get(figure.name) for figure in each.figures]
        left_s = end_s - time.monotonic()
        if all(found is not None and found.date >= (asked.since or today) for found in known):
            ended["known"].append(command)
        elif left_s <= 0:
            ended["left"].append(command)
        else:
            budget_s = min(QUICK_BUDGET_S if asked.quick else each.budget_s, left_s)
            printed = _printed(each, budget_s, quick=asked.quick)
            ended["failed" if printed is None else "ran"].append(command)
            if printed is not None:
                load = round(os.getloadavg()[0], 1)
                values[size] |= {f.name: Found(f.value(printed), today, command, load) for f in each.figures}
                write_values(values, asked.values)
    put_into(asked.into, section(BENCHMARKS, values))
    print_result(ended)
    sys.exit(1 if ended["failed"] else 0)


def _chosen(asked: argparse.Namespace) -> list[Benchmark]:
    """The benchmarks to run, none where the table alone is asked for."""
    chosen = [each for each in BENCHMARKS if not asked.only or each.name in asked.only]
    return [] if asked.render else [each for each in chosen if each.has_quick or not asked.quick]


def _asked() -> argparse.Namespace:
    made = parser(__doc__, "of each benchmark, ten minutes in all")
    names = sorted({each.name for each in BENCHMARKS})
    made.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these benchmarks")
    made.add_argument("--since", metavar="DATE", help="what was run on this day or later is not run again (today)")
    made.add_argument("--minutes", type=float, metavar="M", help="begin nothing after so many (with --quick 10)")
    made.add_argument("--render", action="store_true", help="run nothing, write the table")
    made.add_argument("--into", type=Path, default=RESULTS, metavar="FILE", help="where the table goes (RESULTS.md)")
    made.add_argument("--values", type=Path, default=STORE, metavar="FILE", help="where values are kept")
    return made.parse_args()


def _printed(benchmark: Benchmark, budget_s: float, *, quick: bool) -> Any:
    """What a benchmark prints; None where it fails or takes too long, which is said in one line."""
    words = ["--quick"] if quick else list(benchmark.words)
    said = benchmark.command(quick=quick)
    progress(f"{said} (at most {budget_s:.0f} s)")
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{benchmark.name}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, errors = process.communicate(timeout=budget_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        progress(f"{said}: not done after {budget_s:.0f} s; its last value stays")
        return None
    if process.returncode:
        progress(f"{said}: {(errors.strip().splitlines() or ['failed'])[-1]}")
        return None
    return json.loads(printed)
