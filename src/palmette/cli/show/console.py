"""Where results are printed: tables for people, JSON for scripts, and quantities as people read them."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from palmette.spec.reading import carbon, energy, joule_seconds, money, size, spending, time

__all__ = [
    "carbon",
    "console",
    "count",
    "energy",
    "joule_seconds",
    "money",
    "print_json",
    "size",
    "spending",
    "time",
]


_LEAST_WIDTH = 120


def console() -> Console:
    """The console for results; wide enough for a table where it is no terminal, and wider if COLUMNS says so.

    Text is printed as it stands: a node may be called ``[edge]``. What is to be bold is a ``Text``.
    """
    made = Console(markup=False, emoji=False)
    return made if made.is_terminal else Console(width=max(_LEAST_WIDTH, made.width), markup=False, emoji=False)


def print_json(data: Any) -> None:
    """Print plain data; numbers that JSON does not have are a bug."""
    print(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False))


def count(operations: float) -> str:
    """A number of operations as people read it."""
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if operations >= factor:
            return f"{operations / factor:.3g} {unit}"
    return f"{operations:.0f}"
