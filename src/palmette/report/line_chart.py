"""A line chart as SVG: a few series over the same numbers, each line with its name at its end and in a legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 40, 52
# Okabe and Ito's colours, distinguishable with colour blindness.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
FONT = 'font-family="sans-serif" font-size="12"'
MAX_TICKS = 12
DASHES = ("", "6 3", "2 3", "8 3 2 3")


def line_chart(
    title: str,
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    x_label: str,
    y_label: str,
    *,
    measured: Mapping[str, Sequence[bool]] | None = None,
) -> str:
    """The chart as the text of an SVG file; y starts at 0. Points that are ``measured`` are squares, others circles."""
    top = _ceiling(max(max(values) for values in series.values()))
    low, high = min(x), max(x)

    def at_x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ((value - low) / (high - low) if high > low else 0.5)

    def at_y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [*_head(title), *_axes(x_label, y_label), *_y_ticks(top, at_y), *_x_ticks(x, at_x)]
    for k, (name, values) in enumerate(series.items()):
        points = [(at_x(a), at_y(b)) for a, b in zip(x, values, strict=True)]
        squares = (measured or {}).get(name, [False] * len(points))
        parts += _line(name, points, COLOURS[k % len(COLOURS)], DASHES[k % len(DASHES)], TOP + 12 + 20 * k)
        parts += [_point(at, square, COLOURS[k % len(COLOURS)]) for at, square in zip(points, squares, strict=True)]
    if any(any(squares) for squares in (measured or {}).values()):
        parts.append(f'<text x="{WIDTH - RIGHT + 16}" y="{HEIGHT - 12}">■ measured  ● computed</text>')
    return "\n".join([*parts, "</svg>\n"])


def _head(title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]


def _axes(x_label: str, y_label: str) -> list[str]:
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    upright = f"translate(16 {(HEIGHT + TOP - BOTTOM) / 2:.0f}) rotate(-90)"
    return [
        f'<text x="{middle:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="{upright}" text-anchor="middle">{escape(y_label)}</text>',
    ]


def _y_ticks(top: float, at_y: Callable[[float], float]) -> Iterator[str]:
    for value in (top * k / 4 for k in range(5)):
        y = at_y(value)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'


def _x_ticks(x: Sequence[float], at_x: Callable[[float], float]) -> Iterator[str]:
    for value in x[:: math.ceil(len(x) / MAX_TICKS)]:
        yield f'<text x="{at_x(value):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>'


def _line(name: str, points: list[tuple[float, float]], colour: str, dash: str, legend_y: float) -> list[str]:
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    start = WIDTH - RIGHT + 16
    style = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" fill="none"'
    return [
        f'<polyline points="{drawn}" {style}/>',
        f'<line x1="{start}" x2="{start + 26}" y1="{legend_y}" y2="{legend_y}" {style}/>',
        f'<text x="{start + 32}" y="{legend_y + 4}">{escape(name)}</text>',
    ]


def _point(at: tuple[float, float], square: bool, colour: str) -> str:
    x, y = at
    if square:
        return f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" fill="{colour}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'


def _ceiling(value: float) -> float:
    """The least of 1, 2, 4, 5, 10 times a power of ten that is not below."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        factor * power for factor in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10) if factor * power >= value * (1 - 1e-9)
    )
