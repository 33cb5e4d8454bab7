"""Line charts: well-formed, to scale, and safe whatever the names."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from palmette.report.line_chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def points(chart: str) -> list[list[tuple[float, float]]]:
    lines = ET.fromstring(chart).findall(f"{SVG}polyline")
    return [[tuple(map(float, point.split(","))) for point in line.attrib["points"].split()] for line in lines]


def test_lines_are_to_scale() -> None:
    (line,) = points(line_chart("title", [1, 2, 3], {"a": [0, 5, 10]}, "x", "y"))
    assert line[0] == (LEFT, HEIGHT - BOTTOM)
    assert line[2] == (WIDTH - RIGHT, TOP)
    assert line[1] == ((LEFT + WIDTH - RIGHT) / 2, (HEIGHT - BOTTOM + TOP) / 2)


def test_every_series_has_a_line_and_its_name() -> None:
    chart = line_chart("t", [1, 2], {"one": [1, 2], "two": [2, 1]}, "x", "y")
    assert len(points(chart)) == 2
    assert {"one", "two"} <= {text.text for text in ET.fromstring(chart).iter(f"{SVG}text")}


def test_names_are_only_text() -> None:
    chart = line_chart("<script>", [1], {"a & b": [0.0]}, "x", "y")
    assert "<script>" not in chart
    ET.fromstring(chart)
