"""One iteration as SVG: a lane for each node, what it computes above what it sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palmette.report.notebook.canvas import OTHER, box, drawing, fitted, line, text
from palmette.spec.reading import size, time

COLOURS = {"forward": "#3477b8", "backward": "#7a58ac", "update": "#a84d28", "average": "#a84d28"}
COLOURS |= {"backward input": COLOURS["backward"], "backward weights": "#b19ad0"}
WIDTH, NAMES, MARGIN, LANE, TOP = 760.0, 120.0, 12.0, 28.0, 22.0
MOST_LANES = 24
TICKS = 4


def timeline_svg(operations: Sequence[Sequence[Any]]) -> str:
    """Operations as rows of node, instance, kind, start, end (seconds) and bytes, as ``plan_view`` has them."""
    nodes = list(dict.fromkeys(row[0] for row in operations))[:MOST_LANES]
    end_s = max((row[4] for row in operations), default=0.0) or 1.0
    wide, bottom = WIDTH - NAMES - MARGIN, TOP + len(nodes) * LANE
    parts = []
    for tick in range(TICKS + 1):
        x = NAMES + wide * tick / TICKS
        anchor = "end" if tick == TICKS else "middle" if tick else "start"
        parts += [line(x, TOP - 4, x, bottom, 0.12), text(x, 12, time(end_s * tick / TICKS) if tick else "0 s", anchor)]
    for number, node in enumerate(nodes):
        y = TOP + number * LANE
        parts.append(text(0, y + 15, fitted(node, NAMES - 10)))
        parts += [_bar(row, y, wide / end_s) for row in operations if row[0] == node]
    return drawing("The operations of one iteration, node by node", WIDTH, bottom + 26, [*parts, *_legend(bottom + 18)])


def _bar(row: Sequence[Any], y: float, scale: float) -> str:
    node, instance, kind, start_s, stop_s, carried = row
    x, wide = NAMES + start_s * scale, max(1.0, (stop_s - start_s) * scale)
    title = f"{kind} of {instance} on {node}: {time(start_s)} to {time(stop_s)}"
    title += f", {size(carried)}" if carried else ""
    if kind in COLOURS:
        return box(x, y + 2, wide, 13, colour=COLOURS[kind], title=title)
    return box(x, y + (16 if kind == "send" else 20), wide, 3, colour=OTHER, title=title)


def _legend(y: float) -> list[str]:
    parts, x = [], NAMES
    for said, colour in (
        ("forward", COLOURS["forward"]),
        ("backward", COLOURS["backward"]),
        ("update", COLOURS["update"]),
        ("send and receive", OTHER),
    ):
        parts += [box(x, y - 8, 12, 8, colour=colour, title=said), text(x + 17, y, said)]
        x += 100
    return parts
