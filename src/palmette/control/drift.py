"""Links that are not what the cluster file says: the transfers of a run beside those of its estimate.

A link has drifted when every transfer over it takes much longer, or much shorter, than the evaluator foretold, in the
median of the last iterations. Transfers that share a link were foretold to share it, so sharing is no drift.
"""

from __future__ import annotations

import json
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palmette.control.replanning import with_links
from palmette.cost.estimate import Transfer, transfers
from palmette.cost.evaluate import Evaluator
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase

WINDOW = 5
# Shorter ones tell more of the machine than of the link.
_SHORTEST_S = 0.05


class LinkSpeeds:
    """Reads the trace of a run while it is written; ``threshold`` is how far a link may be off, as a fraction."""

    def __init__(self, trace: Path, phase: Phase, prices: Evaluator, threshold: float) -> None:
        self._trace, self._prices, self._threshold = trace, prices, threshold
        self._expected = transfers(prices.price(phase))
        self._seconds: deque[list[float]] = deque(maxlen=WINDOW)
        self._read: int | None = None
        self._rest, self._lines = "", list[dict[str, Any]]()

    def __call__(self) -> Cluster | None:
        """The cluster as its links are, if one has drifted."""
        for iteration in self._iterations():
            self._note(iteration)
        if len(self._seconds) < WINDOW:
            return None
        off = self.off([statistics.median(times) for times in zip(*self._seconds, strict=True)])
        cluster = self._prices.cluster
        return drifted(cluster, off) if off else None

    def off(self, seconds: Sequence[float]) -> dict[int, float]:
        """By how many times each link that has drifted is slower than declared, by its number."""
        ratios: dict[int, list[float]] = {}
        for transfer, measured_s in zip(self._expected, seconds, strict=True):
            route = self._prices.route(transfer.sender, transfer.receiver)
            foretold_s = transfer.end_s - transfer.start_s - route.latency_s
            if foretold_s >= _SHORTEST_S:
                for resource in route.resources:
                    ratio = max(measured_s - route.latency_s, 0.1 * foretold_s) / foretold_s
                    ratios.setdefault(resource // 2, []).append(ratio)
        limit = 1 + self._threshold
        return {
            link: statistics.median(found)
            for link, found in ratios.items()
            if min(found) > limit or max(found) < 1 / limit
        }

    def _note(self, iteration: Sequence[Mapping[str, Any]]) -> None:
        """Keep the seconds of an iteration's transfers, in the order of those that were foretold."""
        arrived: dict[tuple[str, str], list[float]] = {}
        received = [line for line in iteration if line["op"] == "receive"]
        for line in sorted(received, key=lambda line: float(line["start_s"])):
            arrived.setdefault((line["node"], line["instance"]), []).append(line["end_s"] - line["start_s"])
        try:
            self._seconds.append([arrived[_taker(transfer)].pop(0) for transfer in self._expected])
        except (KeyError, IndexError):
            return  # something else happened, such as a hand-over

    def _iterations(self) -> list[list[dict[str, Any]]]:
        """The iterations that have been written since the last look; the last may go on, and waits."""
        self._lines += self._new_lines()
        found: dict[int, list[dict[str, Any]]] = {}
        for line in self._lines:
            found.setdefault(line["iteration"], []).append(line)
        self._lines = found.pop(max(found), []) if found else []
        return [found[number] for number in sorted(found)]

    def _new_lines(self) -> list[dict[str, Any]]:
        """Whole lines since the last look; the first time, what is there already is passed over."""
        if not self._trace.exists():
            return []
        with self._trace.open(encoding="utf-8") as file:
            file.seek(0, 2) if self._read is None else file.seek(self._read)
            text = self._rest + file.read()
            self._read = file.tell()
        *whole, self._rest = text.split("\n")
        return [json.loads(line) for line in whole]


def _taker(transfer: Transfer) -> tuple[str, str]:
    return transfer.receiver, transfer.instance


def drifted(cluster: Cluster, off: Mapping[int, float]) -> Cluster:
    """The cluster with the bandwidth that its links have."""
    return with_links(
        cluster,
        [
            link.model_copy(update={"bandwidth_bps": max(1.0, link.bandwidth_bps / off.get(k, 1.0))})
            for k, link in enumerate(cluster.links)
        ],
    )
