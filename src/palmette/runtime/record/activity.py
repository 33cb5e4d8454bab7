"""The activity of all nodes in a period: its length, how busy the nodes were, and how much energy they used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from palmette.cost.energy import load, node_energy_j
from palmette.cost.evaluate import Evaluator
from palmette.cost.radio import radio_energy_j
from palmette.runtime.program import Channel
from palmette.runtime.record.operations import OperationRecord
from palmette.spec.plan import Phase

Span = tuple[float, float]


class Activity:
    """The records of one period; it starts with the first operation, unless ``begin_s`` is given.

    What was sent ahead began before: of that, only what happened in the period counts as its time.
    """

    def __init__(self, evaluator: Evaluator, channels: Mapping[int, Channel], begin_s: float | None = None) -> None:
        self._evaluator, self._channels = evaluator, channels
        self._calls: dict[str, list[tuple[float, float, float]]] = {}
        self._sends: dict[str, list[Span]] = {}
        self._received: dict[str, list[Span]] = {}
        self._sending_j = 0.0
        self._fixed = begin_s is not None
        self.begin_s, self.end_s = math.inf if begin_s is None else begin_s, -math.inf
        self.records = 0

    def add(self, phase: Phase, records: Mapping[str, Sequence[OperationRecord]]) -> None:
        """Add the nodes' records for a phase or a tree of it."""
        for node, lines in records.items():
            self.records += len(lines)
            for record in lines:
                self._add(phase, node, record)

    def _add(self, phase: Phase, node: str, record: OperationRecord) -> None:
        self.end_s = max(self.end_s, record.end_s)
        if record.op == "receive":
            return  # posted long before its message was sent
        if not self._fixed:
            self.begin_s = min(self.begin_s, record.start_s)
        if record.is_call:
            share = self._share(phase, node, record)
            self._calls.setdefault(node, []).append((record.start_s, record.end_s, share))
        elif record.channel is not None:
            start_s = max(record.start_s, self.begin_s) if self._fixed else record.start_s
            span = start_s, max(start_s, record.end_s)
            self._sends.setdefault(node, []).append(span)
            _, sender, receiver = self._channels[record.channel]
            self._received.setdefault(receiver, []).append(span)
            self._sending_j += record.bytes * 8 * self._evaluator.route(sender, receiver).energy_j_per_bit

    def _share(self, phase: Phase, node: str, record: OperationRecord) -> float:
        if phase.sync_kind.has_server and record.op == "update":  # the parameter server updates, not an instance
            return self._evaluator.cluster.nodes[node].limits.cpu_share
        return phase.instances[record.instance].cpu_share

    @property
    def span_s(self) -> float:
        """The length of the period."""
        return max(0.0, self.end_s - self.begin_s)

    def seconds(self, node: str) -> dict[str, float]:
        """How a node spent its time; it may compute and send at once, and waits while it does neither."""
        calls = [(start, end) for start, end, _ in self._calls.get(node, ())]
        sends = self._sends.get(node, [])
        return {
            "computing_s": covered_s(calls),
            "sending_s": covered_s(sends),
            "waiting_s": max(0.0, self.span_s - covered_s([*calls, *sends])),
            "whole_s": self.span_s,
        }

    def energy_j(self, nodes: Iterable[str], dilation: float) -> float | None:
        """The energy of nodes by their declared power, and of transfers; None if a node's power is unknown."""
        total = self._sending_j
        for node in nodes:
            power = self._evaluator.cluster.nodes[node].power
            if power is None:
                return None
            effort_s = load(self._calls.get(node, []), power.exponent).effort_s
            total += node_energy_j(power, self.span_s / dilation, effort_s / dilation) + self._radio_j(node, dilation)
        return total

    def _radio_j(self, node: str, dilation: float) -> float:
        """The energy of a node's radio, as if the period repeated."""
        radio = self._evaluator.cluster.nodes[node].radio
        if radio is None:
            return 0.0
        passing = [*self._sends.get(node, ()), *self._received.get(node, ())]
        spans = [(start_s / dilation, end_s / dilation) for start_s, end_s in passing]
        return radio_energy_j(radio, spans, self.span_s / dilation)


def covered_s(spans: Iterable[Span]) -> float:
    """Seconds covered by at least one of these spans."""
    covered, until = 0.0, -math.inf
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered
