"""Figures inside a page that people write: between marks that no reader sees, filled in from the values that are kept.

    takes <!--figure upload first: cases-->42<!--/figure--> cases

A name in a mark is that of a figure without its backquotes, which Markdown would take for code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from benchmarks.summary.figure import Benchmark
from benchmarks.summary.page import last, written
from benchmarks.summary.store import Values

_MARK = re.compile(r"<!--figure (.+?)-->(.*?)<!--/figure-->")


def texts(benchmarks: Iterable[Benchmark], values: Values) -> dict[str, str]:
    """Every figure that has a value, as people read it, by its name in a mark."""
    known = {figure: last(figure, values) for each in benchmarks for figure in each.all_figures}
    return {
        figure.name.replace("`", ""): written(found.value, figure.unit)
        for figure, found in known.items()
        if found is not None and found.value is not None
    }


def filled(text: str, known: Mapping[str, str]) -> str:
    """The page with the last value in each mark.

    Raises:
        KeyError: a mark names no figure that has a value.
    """
    return _MARK.sub(lambda mark: f"<!--figure {mark[1]}-->{known[mark[1]]}<!--/figure-->", text)
