"""A bar chart as SVG: groups of bars, one colour a series, over a linear or a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from palmette.report.line_chart import COLOURS, FONT

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 64, 64


def bar_chart(
    title: str, groups: Sequence[str], series: Mapping[str, Sequence[float]], y_label: str, *, log2: bool = False
) -> str:
    """The chart as the text of an SVG file; y starts at 0, or, with ``log2``, at a half with ticks at doublings."""
    highest = max(max(values) for values in series.values())
    ticks = [2.0**k for k in range(-1, math.ceil(math.log2(highest)) + 1)] if log2 else _quarters(highest)
    height = HEIGHT - TOP - BOTTOM
    upright = f"translate(16 {TOP + height / 2:.0f}) rotate(-90)"

    def at_y(value: float) -> float:
        low, high = ticks[0], ticks[-1]
        part = math.log(value / low) / math.log(high / low) if log2 else value / high
        return HEIGHT - BOTTOM - height * part

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold">{escape(title)}</text>',
        f'<text transform="{upright}" text-anchor="middle">{escape(y_label)}</text>',
        *(_tick(value, at_y(value)) for value in ticks),
        *_legend(list(series)),
    ]
    wide = (WIDTH - LEFT - RIGHT) / len(groups)
    for k, group in enumerate(groups):
        values = [each[k] for each in series.values()]
        parts += _group(group, LEFT + k * wide, wide, values, at_y)
    return "\n".join([*parts, "</svg>\n"])


def _quarters(highest: float) -> list[float]:
    return [highest * k / 4 for k in range(5)]


def _tick(value: float, y: float) -> str:
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
    return f'{line}<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'


def _legend(names: list[str]) -> list[str]:
    return [
        f'<rect x="{LEFT + 150 * k}" y="36" width="12" height="12" fill="{COLOURS[k]}"/>'
        f'<text x="{LEFT + 150 * k + 18}" y="47">{escape(name)}</text>'
        for k, name in enumerate(names)
    ]


def _group(name: str, left: float, wide: float, values: list[float], at_y: Callable[[float], float]) -> list[str]:
    """The bars of a group, and its name below them, a line for each word."""
    bottom, bar = HEIGHT - BOTTOM, 0.8 * wide / len(values)
    parts = [
        f'<rect x="{left + 0.1 * wide + k * bar:.1f}" y="{at_y(value):.1f}" width="{bar:.1f}" '
        f'height="{bottom - at_y(value):.1f}" fill="{COLOURS[k]}"/>'
        for k, value in enumerate(values)
    ]
    words = [
        f'<text x="{left + wide / 2:.1f}" y="{bottom + 18 + 16 * k}" text-anchor="middle">{escape(word)}</text>'
        for k, word in enumerate(name.split(" "))
    ]
    return parts + words
