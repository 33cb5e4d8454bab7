"""The claims of several papers beside our results, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from palmette.report.page import render_plain_page

COLOURS = {
    "better": "--device",
    "reproduced": "--cloud",
    "reproduced with fitted machines": "--cloud",
    "cannot all be true": "--edge",
    "not reached": "--edge",
}


def claims_page(made: dict[str, Any]) -> str:
    """The page of what ``reproduce.everything`` found."""
    counts = ", ".join(f"{many} {verdict}" for verdict, many in made["counts"].items())
    lead = f"Every claim of four papers beside our result: {counts}."
    return render_plain_page("The papers' claims and our results", lead, "".join(map(_section, made["papers"])))


def _section(paper: dict[str, Any]) -> str:
    head = f"<h2>{escape(paper['title'])}</h2><p class='note'><code>{escape(paper['command'])}</code></p>"
    if paper["failed"]:
        return f"<section id='{escape(paper['name'])}'>{head}<p class='empty'>{escape(paper['failed'])}</p></section>"
    return f"<section id='{escape(paper['name'])}'>{head}{_table(paper['claims'])}</section>"


def _table(rows: Sequence[dict[str, Any]]) -> str:
    names = ("figure", "result", "claim", "paper", "ours")
    headings = "".join(f"<th class='text' scope='col'>{name}</th>" for name in names)
    return (
        "<div class='tablebox' tabindex='0' role='region' aria-label='claims'><table><thead><tr>"
        f"{headings}</tr></thead><tbody>{''.join(map(_row, rows))}</tbody></table></div>"
    )


def _row(row: dict[str, Any]) -> str:
    details = f"<details><summary>why</summary><div class='note'>{escape(str(row['why']))}</div></details>"
    why = details if row["why"] else ""
    colour = COLOURS[row["verdict"]]
    cells = [
        f"<td class='text'>{escape(row['figure'])}</td>",
        f"<td class='text verdict' style='color: var({colour})'>{escape(row['verdict'])}</td>",
        f"<td class='wide text'>{escape(str(row['claim']))}{why}</td>",
        f"<td class='text'>{escape(_shown(row['paper']))}</td>",
        f"<td class='text'>{escape(_shown(row['ours']))}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
