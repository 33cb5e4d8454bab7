"""RESULTS.md: all figures with an aim, those that are told beside them, and where there is more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import assert_never

from benchmarks.summary.figure import Benchmark, Figure, Unit
from benchmarks.summary.store import Found, Values

LAST_FIGURES = "## Last figures"
_HEAD = """# Results

Written by `python -m benchmarks.summary`, all of it, from the values that it keeps in `summary/values.json`.
**Bold** values miss their aim. A value of a command with `--quick` is of a small case. The machine: two shared virtual
cores (Xeon, 2.8 GHz), Python 3.11, with other work on it, so that rates vary by a half from minute to minute; *load* is
its load average, where it was written down.

## All figures
"""
_TOLD = """
## Figures without an aim

What the documentation tells beside them, such as [when is it worth it?](../docs/when-is-it-worth-it.md)
"""
_MORE = """
## More of each benchmark

Tables of single cases, how they came about, and what was tried:
"""
_COLUMNS = "| figure | aim | last value | date | load | command |\n|---|---|---|---|---|---|"
_TOLD_COLUMNS = "| figure | last value | date | load | command |\n|---|---|---|---|---|"


def page(benchmarks: Iterable[Benchmark], values: Values, folder: Path) -> str:
    """The whole page; ``folder`` is where each benchmark has its README."""
    known = list(benchmarks)
    claimed = [_row(figure, each, values) for each in known for figure in each.figures]
    told = [_row(figure, each, values) for each in known for figure in each.told]
    more = [f"- [{title}]({name}/README.md#last-figures)" for name, title in _readmes(folder)]
    return "\n".join([_HEAD, _COLUMNS, *claimed, _TOLD, _TOLD_COLUMNS, *told, _MORE, *more]) + "\n"


def last(figure: Figure, values: Values) -> Found | None:
    """The value of the whole command, else that of its quick case."""
    found = (values[size].get(figure.name) for size in ("whole", "quick"))
    return next((each for each in found if each is not None and each.value is not None), None)


def written(value: float, unit: Unit) -> str:
    """A value as people read it; what takes for ever was not reached."""
    if math.isinf(value):
        return "not reached"
    match unit:
        case "share":
            return f"{100 * value:.4g}%"
        case "seconds":
            return f"{value:.3g} s"
        case "number":
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
    assert_never(unit)


def _row(figure: Figure, benchmark: Benchmark, values: Values) -> str:
    aim = "" if figure.aim is None else f" {figure.aim.sense} {written(figure.aim.value, figure.unit)} |"
    found = last(figure, values)
    if found is None or found.value is None:
        return f"| {figure.name} |{aim} not measured | | | `{benchmark.command(quick=False)}` |"
    value = written(found.value, figure.unit)
    value = value if figure.aim is None or figure.aim.holds(found.value) else f"**{value}**"
    load = "" if found.load_average is None else f"{found.load_average:.1f}"
    return f"| {figure.name} |{aim} {value} | {found.date} | {load} | `{found.command}` |"


def _readmes(folder: Path) -> Iterator[tuple[str, str]]:
    """The benchmarks whose README has figures, with its title."""
    for file in sorted(folder.glob("*/README.md")):
        text = file.read_text(encoding="utf-8")
        if LAST_FIGURES in text:
            yield file.parent.name, text.partition("\n")[0].removeprefix("# ")
