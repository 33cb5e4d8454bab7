"""The traces of links, replayed while a testbed is open: when the next bandwidth changes, in this machine's time.

Emulated time is slower by the dilation. It goes on from one phase to the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from palmette.spec.cluster import Cluster
from palmette.spec.link_trace import BandwidthTrace

Rates = tuple[float, float]
"""Of a link, up and down, in bit/s."""


class Replay:
    """The traces of some links, by their numbers; nothing changes before ``begin``."""

    def __init__(self, traces: Mapping[int, BandwidthTrace], moment_s: float = 0.0) -> None:
        self._traces, self._moment_s = dict(traces), moment_s
        self._changes = heapq.merge(*(self._of_link(k, trace) for k, trace in self._traces.items()))
        self._change = next(self._changes, None)
        self._since_s: float | None = None
        self._passed_s, self._dilation = 0.0, 1.0

    def _of_link(self, number: int, trace: BandwidthTrace) -> Iterator[tuple[float, int, Rates]]:
        for at_s, rates in trace.changes(self._moment_s):
            yield at_s, number, rates

    @property
    def rates_bps(self) -> dict[int, Rates]:
        """The rates of each link at the beginning."""
        return {number: trace.at(self._moment_s) for number, trace in self._traces.items()}

    def begin(self, now_s: float, dilation: float) -> None:
        """Let emulated time pass from now on, so many times slower; what has passed stays."""
        self._passed_s = self.passed_s(now_s)
        self._since_s, self._dilation = now_s, dilation

    def passed_s(self, now_s: float) -> float:
        """Emulated seconds since the beginning."""
        return self._passed_s if self._since_s is None else self._passed_s + (now_s - self._since_s) / self._dilation

    @property
    def next_s(self) -> float:
        """The moment of the next change."""
        if self._change is None or self._since_s is None:
            return float("inf")
        return self._since_s + (self._change[0] - self._passed_s) * self._dilation

    def take(self) -> tuple[int, Rates]:
        """The next change: a link and its rates from then on."""
        assert self._change is not None, "next_s says when there is one"
        _, number, rates = self._change
        self._change = next(self._changes, None)
        return number, rates


def traces_of(cluster: Cluster) -> dict[int, BandwidthTrace]:
    """The links that have a trace, by their numbers."""
    return {k: link.bandwidth_trace for k, link in enumerate(cluster.links) if link.bandwidth_trace is not None}
