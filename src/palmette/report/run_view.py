"""A run as its page shows it: the loss over time and energy, an iteration as it was, and where the joules went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from palmette.cost.energy import load
from palmette.cost.evaluate import Evaluator, NodePrice
from palmette.report.entry import Entry
from palmette.report.plan_view import MOST_OPERATIONS, Record, energy_view, prices_of
from palmette.report.run_files import Done, Metric, metrics, trace

MODELLED = "modelled: declared power of the nodes on the measured trace"
MOST_POINTS = 1500


def run_view(entry: Entry) -> Record:
    """What the page needs to know of a run.

    Raises:
        InputError: a line of its files cannot be read.
    """
    folder = entry.folder
    assert folder is not None
    spent = Spending(entry, prices_of(entry))
    for done in trace(folder / "trace.jsonl"):
        spent.add(done)
    spent.close()
    shown = spent.median()
    operations = [done for done in trace(folder / "trace.jsonl") if done.iteration == shown]
    return view_of(entry, spent, list(metrics(folder / "metrics.jsonl")), shown, operations)


def view_of(
    entry: Entry, spent: Spending, lines: Sequence[Metric], shown: int | None, operations: Sequence[Done]
) -> Record:
    """A run as far as it has come: its trace added up, its metrics, and the operations of one iteration to show."""
    run = entry.run
    assert run is not None
    return {
        "ended": run.ended,
        "iterations": sum(line.accuracy is None for line in lines) or run.iterations,
        "iteration_s": run.iteration_s if run.iteration_s is not None else spent.median_s(),
        "energy_j": run.energy_j,
        "energy_source": run.energy_source,
        "accuracy": run.accuracy,
        "emulated": run.testbed != "none",
        "shown": shown,
        "timeline": timeline_of(operations),
        "energy": spent.energy(),
        **_curves(lines, spent, run.energy_j, run.dilation),
    }


class Spending:
    """Adds up a trace: when each iteration ended, and what the nodes spent until then.

    A node idles from the start of an iteration to its end, but never twice at the same time: under ``async``,
    iterations overlap.
    """

    def __init__(self, entry: Entry, prices: Evaluator | None) -> None:
        self._prices = prices
        phases = entry.plan.phases
        self._shares = {(i.node, i.id): i.cpu_share for phase in phases for i in phase.instances}
        self._planned = prices.price(phases[0]).nodes if prices else {}
        self.spans: dict[int, tuple[float, float]] = {}
        self.spent_j: dict[int, float] = {}
        self.nodes: dict[str, NodePrice] = {name: NodePrice() for name in self._planned}
        self._calls: dict[str, list[tuple[float, float, float]]] = {}
        self._number: int | None = None
        self._covered_s = self._whole_s = self._total_j = 0.0
        self._start_s = self._end_s = 0.0

    def add(self, done: Done) -> None:
        """Add an operation; those of an iteration come together."""
        if done.iteration != self._number:
            self.close()
            self._number, self._start_s, self._end_s = done.iteration, done.start_s, done.end_s
        self._start_s, self._end_s = min(self._start_s, done.start_s), max(self._end_s, done.end_s)
        if done.op in ("forward", "backward", "update"):
            share = self._shares.get((done.node, done.instance), 1.0)
            self._calls.setdefault(done.node, []).append((done.start_s, done.end_s, share))

    def close(self) -> None:
        """The iteration that was being added is over."""
        if self._number is None:
            return
        start_s, end_s = self.spans.get(self._number, (self._start_s, self._end_s))
        self.spans[self._number] = (min(start_s, self._start_s), max(end_s, self._end_s))
        lasted_s = max(0.0, self._end_s - max(self._covered_s, self._start_s))
        self._covered_s = max(self._covered_s, self._end_s)
        self._whole_s += lasted_s
        self._total_j += self._iteration_j(lasted_s)
        self.spent_j[self._number] = self._total_j
        self._calls, self._number = {}, None

    def _iteration_j(self, lasted_s: float) -> float:
        joules = 0.0
        for name, total in self.nodes.items():
            assert self._prices is not None
            power = self._prices.cluster.nodes[name].power
            effort = load(self._calls.get(name, ()), power.exponent if power else 1.0)
            part = NodePrice(effort.busy_s, effort.effort_s, sending_j=self._planned[name].sending_j)
            total.add(part, 1)
            joules += self._prices.node_energy_j(name, part, lasted_s) or 0.0
        return joules

    def energy(self) -> Record | None:
        """The joules of a mean iteration by node; None where they are not known."""
        many = len(self.spans)
        if not many or self._prices is None:
            return None
        mean = {name: NodePrice() for name in self.nodes}
        for name, total in self.nodes.items():
            mean[name].add(total, 1 / many)
        return energy_view(mean, self._whole_s / many, self._prices, MODELLED)

    def median(self) -> int | None:
        """The iteration of median length."""
        ordered = sorted(self.spans, key=lambda number: (self.spans[number][1] - self.spans[number][0], number))
        return ordered[len(ordered) // 2] if ordered else None

    def median_s(self) -> float | None:
        """How long that iteration took."""
        number = self.median()
        return None if number is None else self.spans[number][1] - self.spans[number][0]


def timeline_of(operations: Iterable[Done]) -> list[list[Any]]:
    """Operations of an iteration as the page draws them, from its first start."""
    found = sorted(operations, key=lambda done: done.start_s)
    zero_s = found[0].start_s if found else 0.0
    return [
        [done.node, done.instance, done.op, done.start_s - zero_s, done.end_s - zero_s, done.size_bytes]
        for done in found[:MOST_OPERATIONS]
    ]


def _curves(lines: Iterable[Metric], spent: Spending, energy_j: float | None, dilation: float) -> Record:
    """Loss over time and energy: [seconds, joules, loss, iteration, accuracy where it was judged].

    Joules so far are the trace's, in proportion to what the run says it spent in all.
    """
    total_j = max(spent.spent_j.values(), default=0.0)
    factor = None if spent.energy() is None else energy_j / total_j if energy_j and total_j else 1.0
    loss, judged = [], []
    for line in lines:
        at = spent.spans.get(line.iteration)
        time_s = at[1] if at else None if line.wall_s is None else line.wall_s / dilation
        so_far_j = spent.spent_j.get(line.iteration)
        joules = None if factor is None or so_far_j is None else so_far_j * factor
        row = [time_s, joules, line.loss, line.iteration]
        if line.accuracy is None:
            loss.append(row)
        else:
            judged.append([*row, line.accuracy])
    return {"loss": thinned(loss), "judged": thinned(judged)}


def thinned(rows: list[Any]) -> list[Any]:
    """At most ``MOST_POINTS`` rows, evenly taken, the last among them."""
    step = -(-len(rows) // MOST_POINTS)
    return rows if step <= 1 else rows[len(rows) - 1 :: -step][::-1]
