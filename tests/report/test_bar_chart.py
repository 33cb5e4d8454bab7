"""Bar charts: well-formed, to scale on both kinds of axis, and safe whatever the names."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from palmette.report.bar_chart import BOTTOM, HEIGHT, TOP, bar_chart

SVG = "{http://www.w3.org/2000/svg}"


def heights(chart: str, series: int) -> list[float]:
    """The heights of all bars: what is not the background or a legend."""
    return [float(each.attrib["height"]) for each in ET.fromstring(chart).findall(f"{SVG}rect")[1 + series :]]


@pytest.mark.parametrize(("log2", "parts"), [(False, [0.5, 1.0, 0.25, 0.125]), (True, [0.75, 1.0, 0.5, 0.25])])
def test_bars_are_to_scale(log2: bool, parts: list[float]) -> None:
    chart = bar_chart("t", ["one", "two"], {"a": [4, 2], "b": [8, 1]}, "y", log2=log2)
    assert heights(chart, 2) == pytest.approx([part * (HEIGHT - TOP - BOTTOM) for part in parts], abs=0.1)


def test_names_are_only_text() -> None:
    chart = bar_chart("<script>", ["a & b"], {"<x>": [1.0]}, "y")
    assert "<script>" not in chart
    assert "<x>" not in chart
    ET.fromstring(chart)
