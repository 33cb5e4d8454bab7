"""SVG elements as text. Colours suit light and dark notebooks: text takes that of the page."""

from __future__ import annotations

from html import escape

TIERS = {"cloud": "#3d6fb4", "edge": "#a8730f", "device": "#247a56"}
OTHER = "#8b8678"
LETTER = 6.4
"""Mean width of a letter at 12 pixels."""


def drawing(label: str, width: float, height: float, parts: list[str]) -> str:
    """The whole picture; ``label`` is for those who cannot see it."""
    style = "max-width:100%;height:auto;font:12px sans-serif;fill:currentColor"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}" width="{width:.0f}"'
    return f'{head} viewBox="0 0 {width:.0f} {height:.0f}" style="{style}">{"".join(parts)}</svg>'


def text(x: float, y: float, said: str, anchor: str = "start", colour: str = "currentColor") -> str:
    """A line of text; ``y`` is its baseline."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="fill:{colour}">{escape(said)}</text>'


def box(x: float, y: float, width: float, height: float, *, colour: str, title: str) -> str:
    """A rectangle that says what it is under the mouse."""
    at = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {at} rx="{min(3, width / 2):.1f}" style="fill:{colour}"><title>{escape(title)}</title></rect>'


def line(x1: float, y1: float, x2: float, y2: float, opacity: float = 0.3) -> str:
    """A straight line."""
    at = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {at} style="stroke:currentColor;stroke-opacity:{opacity}"/>'


def curve(x1: float, y1: float, x2: float, y2: float) -> str:
    """A bent line from left to right."""
    bend = max(12.0, (x2 - x1) / 2)
    way = f"M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="{way}" style="fill:none;stroke:{OTHER};stroke-width:1.5"/>'


def fitted(said: str, width: float) -> str:
    """The text, shortened to a width."""
    letters = max(1, int(width / LETTER))
    return said if len(said) <= letters else said[: letters - 1] + "…"
