"""The instance tree as SVG: a lane for each node, clouds on top; layers from left to right.

cloud    ────────────────────────[ 4–5 ]
phone    32 samples ─[ 1–3 ]─────┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from palmette.report.notebook.canvas import OTHER, TIERS, box, curve, drawing, fitted, line, text
from palmette.report.plan_view import JsonObject
from palmette.spec.reading import layer_range

WIDTH, NAMES, FEEDS, MARGIN = 760.0, 120.0, 96.0, 12.0
HIGH, ROW, TOP = 22.0, 32.0, 24.0
MOST_LANES = 24


class _InstancePlace(NamedTuple):
    x: float
    y: float
    wide: float

    @property
    def middle(self) -> float:
        return self.y + HIGH / 2


def tree_svg(phase: JsonObject, cluster: JsonObject | None) -> str:
    """The tree of a phase, as ``plan_view`` has it."""
    tiers = {name: node["tier"] for name, node in cluster["nodes"].items()} if cluster else {}
    lanes = _lanes(phase, tiers)
    depth = max(instance["layers"][1] for instance in phase["instances"])
    cell = (WIDTH - NAMES - FEEDS - MARGIN) / depth
    places, tops, y = dict[str, _InstancePlace](), dict[str, float](), TOP
    for node in lanes:
        rows, tops[node] = _rows([i for i in phase["instances"] if i["node"] == node]), y
        for number, row in enumerate(rows):
            for each in row:
                first, last = each["layers"]
                left = NAMES + FEEDS + (first - 1) * cell + 2
                places[each["id"]] = _InstancePlace(left, y + number * ROW, (last - first + 1) * cell - 4)
        y += max(1, len(rows)) * ROW
    parts = [*_layers(depth, cell, y), *_nodes(tops, tiers), *_flows(phase, places, tops)]
    parts += [_instance(each, places[each["id"]], tiers) for each in phase["instances"] if each["id"] in places]
    return drawing("The instance tree on the nodes", WIDTH, y + 6, parts)


def _lanes(phase: JsonObject, tiers: Mapping[str, str]) -> list[str]:
    used = [each["node"] for kind in ("instances", "sources") for each in phase[kind]]
    order = list(TIERS)
    ranks = {node: order.index(tiers[node]) if tiers.get(node) in order else len(order) for node in used}
    return sorted(ranks, key=lambda node: ranks[node])[:MOST_LANES]


def _rows(instances: Sequence[JsonObject]) -> list[list[JsonObject]]:
    """Instances of a node; those with overlapping layers are stacked."""
    rows: list[list[JsonObject]] = []
    for each in sorted(instances, key=lambda i: int(i["layers"][0])):
        row = next((row for row in rows if row[-1]["layers"][1] < each["layers"][0]), None)
        if row is None:
            rows.append([each])
        else:
            row.append(each)
    return rows


def _layers(depth: int, cell: float, bottom: float) -> list[str]:
    every = max(1, -(-26 // max(1, int(cell))))
    at = {k: NAMES + FEEDS + (k - 0.5) * cell for k in range(1, depth + 1, every)}
    middles = [(a + b) / 2 for a, b in pairwise(at.values())]
    return [*(text(x, 14, str(k), "middle") for k, x in at.items()), *(line(x, 18, x, bottom, 0.1) for x in middles)]


def _nodes(tops: Mapping[str, float], tiers: Mapping[str, str]) -> list[str]:
    parts = []
    for node, y in tops.items():
        colour = TIERS.get(tiers.get(node, ""), OTHER)
        parts += [
            box(0, y, 4, HIGH, colour=colour, title=tiers.get(node, "node")),
            text(10, y + 15, fitted(node, NAMES - 10)),
        ]
        parts.append(line(NAMES, y + HIGH / 2, WIDTH - MARGIN, y + HIGH / 2, 0.1))
    return parts


def _flows(phase: JsonObject, places: Mapping[str, _InstancePlace], tops: Mapping[str, float]) -> list[str]:
    parts = []
    for number, source in enumerate(phase["sources"]):
        y, to = tops.get(source["node"]), places.get(source["into"])
        if y is None or to is None:
            continue
        earlier = sum(each["node"] == source["node"] for each in phase["sources"][:number])
        parts.append(curve(NAMES + FEEDS - 14, y + HIGH / 2, to.x, to.middle))
        if not earlier:
            many = sum(each["samples"] for each in phase["sources"] if each["node"] == source["node"])
            parts.append(text(NAMES, y + 15, fitted(f"{many} samples", FEEDS - 16)))
    for each in phase["instances"]:
        begin, to = places.get(each["id"]), places.get(each["into"])
        if begin is not None and to is not None:
            parts.append(curve(begin.x + begin.wide, begin.middle, to.x, to.middle))
    return parts


def _instance(each: Mapping[str, Any], place: _InstancePlace, tiers: Mapping[str, str]) -> str:
    layers = layer_range(each["layers"])
    title = f"{each['id']}: layers {layers} on {each['node']}, {each['samples']} samples"
    title += "" if each["cpu_share"] == 1 else f", {each['cpu_share']:.0%} CPU"
    title += ", recomputes its activations" if each.get("recompute") else ""
    colour = TIERS.get(tiers.get(each["node"], ""), OTHER)
    drawn = box(place.x, place.y, place.wide, HIGH, colour=colour, title=title)
    said = fitted(layers, place.wide)
    return drawn + text(place.x + place.wide / 2, place.y + 15, said, "middle", "white")
