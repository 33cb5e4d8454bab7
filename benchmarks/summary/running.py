"""Runs all that is claimed and writes it down.

What has been run since a day (today, unless ``--since`` names one) is not run again, so that the same command goes on
where it was ended. Each benchmark has a budget; one that exceeds it is ended, and its last value stays. What a
benchmark printed elsewhere, or with other options, is taken with ``--take "python -m benchmarks.NAME …" FILE``.
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
from benchmarks.summary.figure import Benchmark
from benchmarks.summary.figures import BENCHMARKS, QUICK_BUDGET_S
from benchmarks.summary.marks import filled, texts
from benchmarks.summary.page import page
from benchmarks.summary.store import STORE, Found, Values, read_values, write_values

FOLDER = Path(__file__).parents[1]
RESULTS = FOLDER / "RESULTS.md"
MARKED = (FOLDER.parent / "docs" / "when-is-it-worth-it.md",)
"""Pages with figures between marks."""
QUICK_MINUTES = 10.0


def main() -> None:
    """Run, keep and write down."""
    asked = _asked()
    values, size = read_values(asked.values), "quick" if asked.quick else "whole"
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    end_s = time.monotonic() + 60 * (asked.minutes or (QUICK_MINUTES if asked.quick else float("inf")))
    ended: dict[str, list[str]] = {"ran": [], "known": [], "left": [], "failed": []}
    if asked.take:
        _take(*asked.take, values)
        write_values(values, asked.values)
        ended["ran"].append(asked.take[0])
    for each in _chosen(asked):
        command, known = each.command(quick=asked.quick), [values[size].get(figure.name) for figure in each.all_figures]
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
                values[size] |= {f.name: Found(f.value(printed), today, command, load) for f in each.all_figures}
                write_values(values, asked.values)
    write_pages(values, asked.into)
    print_result(ended)
    sys.exit(1 if ended["failed"] else 0)


def write_pages(values: Values, results: Path = RESULTS) -> None:
    """Write the page of results, and where that is the project's own, fill in the figures of other pages."""
    results.write_text(page(BENCHMARKS, values, FOLDER), encoding="utf-8")
    for each in MARKED if results == RESULTS else ():
        each.write_text(filled(each.read_text(encoding="utf-8"), texts(BENCHMARKS, values)), encoding="utf-8")


def _take(command: str, file: str, values: Values) -> None:
    """Keep what a command printed into a file as if it had been run here, on the day of the file."""
    named = [each for each in BENCHMARKS if command.split()[:3] == ["python", "-m", f"benchmarks.{each.name}"]]
    if not named:
        sys.exit(f'benchmark: {command!r} is no command; expected "python -m benchmarks.NAME …"')
    printed = json.loads(Path(file).read_text())
    day = dt.datetime.fromtimestamp(Path(file).stat().st_mtime, tz=dt.UTC).date().isoformat()
    load = printed.get("load_average")
    load = round(max(load), 1) if isinstance(load, list) else load
    for figure in (figure for each in named for figure in each.all_figures):
        value = figure.value(printed)
        if value is not None:
            values["whole"][figure.name] = Found(value, day, command, load)


def _chosen(asked: argparse.Namespace) -> list[Benchmark]:
    """The benchmarks to run, none where the page alone is asked for."""
    chosen = [each for each in BENCHMARKS if not asked.only or each.name in asked.only]
    chosen = [each for each in chosen if not each.elsewhere and (each.has_quick or not asked.quick)]
    return [] if asked.render or asked.take else chosen


def _asked() -> argparse.Namespace:
    made = parser(__doc__, "of each benchmark, ten minutes in all")
    names = sorted({each.name for each in BENCHMARKS})
    made.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these benchmarks")
    made.add_argument("--since", metavar="DATE", help="what was run on this day or later is not run again (today)")
    made.add_argument("--minutes", type=float, metavar="M", help="begin nothing after so many (with --quick 10)")
    made.add_argument("--render", action="store_true", help="run nothing, write the page")
    made.add_argument("--take", nargs=2, metavar=("COMMAND", "FILE"), help="run nothing, keep what a command printed")
    made.add_argument("--into", type=Path, default=RESULTS, metavar="FILE", help="where the page goes (RESULTS.md)")
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
