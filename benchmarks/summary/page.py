"""The table of all figures, and the section of a Markdown file that holds it and nothing written by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import assert_never

from benchmarks.summary.figures import Benchmark, Figure, Unit
from benchmarks.summary.store import Values

BEGIN, END = "<!-- summary: begin -->", "<!-- summary: end -->"
_HEAD = """## All figures

Written by `python -m benchmarks.summary`; what is between the two marks is replaced each time. **Bold** values miss
their aim. A value of a command with `--quick` is of a small case.

| figure | aim | last value | date | load | command |
|---|---|---|---|---|---|"""


def section(benchmarks: Iterable[Benchmark], values: Values) -> str:
    """The table, between its marks: of each figure the value of the whole command, else that of its quick case."""
    rows = [_row(figure, each, values) for each in benchmarks for figure in each.figures]
    return "\n".join([BEGIN, _HEAD, *rows, END])


def _row(figure: Figure, benchmark: Benchmark, values: Values) -> str:
    aim = f"{figure.aim.sense} {written(figure.aim.value, figure.unit)}"
    for found in (values["whole"].get(figure.name), values["quick"].get(figure.name)):
        if found is not None and found.value is not None:
            value = written(found.value, figure.unit)
            value = value if figure.aim.holds(found.value) else f"**{value}**"
            load = "" if found.load_average is None else f"{found.load_average:.1f}"
            return f"| {figure.name} | {aim} | {value} | {found.date} | {load} | `{found.command}` |"
    return f"| {figure.name} | {aim} | not measured | | | `{benchmark.command(quick=False)}` |"


def written(value: float, unit: Unit) -> str:
    """A value as people read it."""
    match unit:
        case "share":
            return f"{100 * value:.4g}%"
        case "seconds":
            return f"{value:.3g} s"
        case "number":
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
    assert_never(unit)


def put_into(path: Path, text: str) -> None:
    """Put the section into a Markdown file: where it was, else after the first paragraph; the rest stays as it is."""
    before = path.read_text() if path.exists() else "# Results\n"
    if BEGIN in before and END in before:
        head, rest = before.split(BEGIN, 1)
        path.write_text(head + text + rest.split(END, 1)[1])
        return
    head, mark, rest = before.partition("\n## ")
    path.write_text(head.rstrip("\n") + "\n\n" + text + "\n" + (f"\n## {rest}" if mark else ""))
