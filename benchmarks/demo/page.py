"""What README.md shows of the demo, written from what came out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palmette.spec.reading import time

BEGIN, END = "<!-- demo: begin -->", "<!-- demo: end -->"
_ROWS = 5
_LEFT_OUT = "planned in"


def table(compared: str) -> list[str]:
    """The first rows of what ``palmette compare`` prints, without how long planning took."""
    head, *rows = compared.splitlines()
    width = head.index(_LEFT_OUT) if _LEFT_OUT in head else len(head)
    return [line[:width].rstrip() for line in (head, *rows[:_ROWS])]


def put_into_readme(page: Path, found: Mapping[str, Any]) -> None:
    """Replace what is between the marks."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN, 1)
    page.write_text(before + _section(found) + rest.split(END, 1)[1], encoding="utf-8")


def _run(found: Mapping[str, float]) -> str:
    return f"{time(found['measured_s'])} (predicted {time(found['predicted_s'])})"


def _section(found: Mapping[str, Any]) -> str:
    ours, theirs = (_run(found[name]) for name in ("auto", "pipeline"))
    lines = [
        BEGIN,
        "```",
        *found["table"],
        "```",
        "",
        "The best of them and the best that can be done without Palmette under the same rules, a pipeline over phone",
        f"and server cut where it is fastest, are then run for real: {ours} against",
        f"{theirs}, {found['times_as_fast']:.2f} times as fast.",
        END,
    ]
    return "\n".join(lines)
