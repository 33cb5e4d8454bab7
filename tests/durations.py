"""Seconds that were measured on a machine that others use as well.

Such a machine only adds. A test therefore bounds seconds closely from below, where no machine excuses them, and widely
from above: nearer than what a fault would make of them, and no nearer. How close measured seconds come to expected ones
stands in benchmarks/RESULTS.md (``fidelity``).
"""

from __future__ import annotations

from dataclasses import dataclass

LATER = 0.5
LATER_S = 0.1


@dataclass(frozen=True, eq=False)
class Lasting:
    """Equal to seconds between these."""

    least_s: float
    most_s: float

    def __eq__(self, found_s: object) -> bool:
        return isinstance(found_s, float) and self.least_s <= found_s <= self.most_s

    __hash__ = None  # type: ignore[assignment]


def lasting(expected_s: float, *, sooner: float = 0.08, most_s: float | None = None) -> Lasting:
    """Equal to seconds that are hardly less than expected, and at most half as many more, or at most so many."""
    return Lasting((1 - sooner) * expected_s, expected_s * (1 + LATER) + LATER_S if most_s is None else most_s)
