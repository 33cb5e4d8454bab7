"""Transfers that give way to others: two classes of traffic on the same links, with strict priority.

Samples that are sent ahead are in the background, activations and gradients in the foreground. At every moment those in
the foreground have their max-min fair rates, as if there were no others; those in the background share what they leave
of each resource, max-min fairly as well. One whose path has nothing left waits.

                     3 s       5 s               12 s
    foreground        ████████                          a gradient of 2 s
    background ███████        ███████████████████       samples of 10 s
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from palmette.cost.sharing import Flows, Path

# Rates that fill a resource may add up to a little less than its capacity, by rounding.
_FULL = 1 - 1e-9
_NEVER = float("inf")


class PrioritizedFlows:
    """Flows of both classes; ``background`` has the numbers of the transfers that give way."""

    def __init__(self, capacities: Sequence[float], background: Collection[int]) -> None:
        self._capacities, self._giving_way = capacities, background
        self._left_bps = list(capacities)
        self._foreground, self._background = Flows(capacities), Flows(self._left_bps)
        self._foreground_s = self._background_s = _NEVER  # when the first of each class will end
        self._outdated = False  # what is left for the background

    def begin(self, number: int, path: Path, bits: float, now_s: float) -> None:
        """Begin a transfer; ``share`` has to follow."""
        flows = self._background if number in self._giving_way else self._foreground
        flows.begin(number, path, bits, now_s)
        self._outdated = True

    def end(self, now_s: float, soon_s: float) -> list[int]:
        """Take out the transfers that end between now and soon, which is as good as now; ``share`` has to follow."""
        ended = self._foreground.end(now_s, soon_s) if self._foreground_s <= soon_s else []
        self._outdated = self._outdated or bool(ended)
        return ended + (self._background.end(now_s, soon_s) if self._background_s <= soon_s else [])

    def share(self, now_s: float) -> float:
        """Share the resources among the transfers under way; returns when the first of them will end."""
        self._foreground_s = self._foreground.share(now_s)
        if self._outdated:
            self._leave_rest(now_s)
            self._outdated = False
        self._background_s = self._background.share(now_s)
        return min(self._foreground_s, self._background_s)

    def resources(self) -> list[int]:
        """Those that transfers under way use."""
        return self._foreground.resources() + self._background.resources()

    def renew(self, resource: int, now_s: float) -> None:
        """Note that the capacity of a resource is another from now on; ``share`` has to follow."""
        self._foreground.renew(resource, now_s)
        self._outdated = True

    def _leave_rest(self, now_s: float) -> None:
        """Leave to the background what the foreground does not use."""
        for resource in self._background.resources():
            capacity_bps, used_bps = self._capacities[resource], self._foreground.used_bps(resource)
            left_bps = capacity_bps - used_bps if used_bps < capacity_bps * _FULL else 0.0
            if left_bps != self._left_bps[resource]:
                self._left_bps[resource] = left_bps
                self._background.renew(resource, now_s)


def flows_over(capacities: Sequence[float], background: Collection[int]) -> Flows | PrioritizedFlows:
    """The transfers over these resources (bit/s); ``background`` has the numbers of those that give way."""
    return PrioritizedFlows(capacities, background) if background else Flows(capacities)
