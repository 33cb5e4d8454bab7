"""Tables and headings as HTML; every text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST_ROWS = 60


def heading(said: str, more: str = "") -> str:
    """A heading, and what stands beside it."""
    return f"<div><b>{escape(said)}</b>{escape(more)}</div>"


def note(said: str) -> str:
    """A line of text."""
    return f"<div>{escape(said)}</div>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is text, the others are numbers. Of very many rows, the first are shown."""
    rows = list(rows)
    head = "".join(_cell("th", said, k) for k, said in enumerate(headings))
    lines = [f"<tr>{''.join(_cell('td', said, k) for k, said in enumerate(row))}</tr>" for row in rows[:MOST_ROWS]]
    left = note(f"and {len(rows) - MOST_ROWS} more") if len(rows) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{left}"


def facts_table(facts: Mapping[str, str]) -> str:
    """Names and values."""
    rows = [f"<tr>{_cell('th', name, 0)}{_cell('td', value, 0)}</tr>" for name, value in facts.items()]
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def _cell(kind: str, said: str, column: int) -> str:
    return f'<{kind} style="text-align:{"right" if column else "left"}">{escape(said)}</{kind}>'
