"""Which iterations a trace has with all their operations, and the sums of all others.

An iteration on three nodes takes some 10 kB, so that a long run would write gigabytes. Its first iterations, the first
ones of every phase and then every thousandth are written whole; the others are added up, in a line of its own kind:

    {"op": "sum", "first_iteration": 100, "iteration": 999, "start_s": …, "end_s": …,
     "nodes": {"phone": {"forward": {"count": 1798, "seconds": 3.2, "bytes": 0}, …}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FIRST = 100
PHASE_FIRST = 10
EVERY = 1000

Line = Mapping[str, Any]


class TraceSums:
    """Takes iterations in their order; with ``full``, all are written whole."""

    def __init__(self, *, full: bool) -> None:
        self._full, self._whole = full, FIRST
        self._number: int | None = None
        self._sum: dict[str, Any] | None = None

    def begin_phase(self) -> None:
        """Write the next iterations whole."""
        self._whole = max(self._whole, PHASE_FIRST)

    def taken(self, operations: Sequence[Line]) -> list[Line]:
        """What to write now, given operations of one iteration: they themselves, or nothing until ``rest``."""
        if self._full or not operations:
            return list(operations)
        number = int(operations[0]["iteration"])
        if number != self._number:
            self._number, self._whole = number, max(0, self._whole - 1) if self._number is not None else self._whole
        if self._whole or number % EVERY == 0:
            return [*self.rest(), *operations]
        self._add(number, operations)
        return []

    def _add(self, number: int, operations: Sequence[Line]) -> None:
        start_s = min(line["start_s"] for line in operations)
        end_s = max(line["end_s"] for line in operations)
        if self._sum is None:
            empty: dict[str, Any] = {"op": "sum", "first_iteration": number, "iteration": number, "nodes": {}}
            self._sum = empty | {"start_s": start_s, "end_s": end_s}
        found = self._sum
        found |= {
            "first_iteration": min(found["first_iteration"], number),
            "iteration": max(found["iteration"], number),
            "start_s": min(found["start_s"], start_s),
            "end_s": max(found["end_s"], end_s),
        }
        for line in operations:
            kinds = found["nodes"].setdefault(line["node"], {})
            total = kinds.setdefault(line["op"], {"count": 0, "seconds": 0.0, "bytes": 0})
            total["count"] += 1
            total["seconds"] += line["end_s"] - line["start_s"]
            total["bytes"] += line["bytes"]

    def rest(self) -> list[Line]:
        """The sums of what has not been written; they begin again from here."""
        found, self._sum = self._sum, None
        return [] if found is None else [found]
