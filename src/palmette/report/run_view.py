"""A run as its page shows it: loss over time and energy, one iteration as measured, and energy by node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from palmette.cost.energy import load
from palmette.cost.evaluate import Evaluator, NodePrice
from palmette.predict.ideal_curve import IdealCurve, verdict
from palmette.report.entry import ReportEntry
from palmette.report.plan_view import MAX_OPERATIONS, JsonObject, energy_view, evaluator_of
from palmette.report.run_files import MetricsRow, TraceRow, TraceSum, read_metrics, read_trace

MODELLED = "modelled: declared power of the nodes on the measured trace"
MAX_POINTS = 1500
# Lines are written every thousand iterations at least; a file that says otherwise is not taken at its word.
_MOST_SUMMED = 1000


def run_view(entry: ReportEntry) -> JsonObject:
    """A run as the page shows it.

    Raises:
        InputError: a line of its files cannot be read.
    """
    folder = entry.folder
    assert folder is not None
    totals = TraceTotals(entry, evaluator_of(entry))
    for row in read_trace(folder / "trace.jsonl"):
        totals.add(row)
    totals.end_iteration()
    shown = totals.median()
    traced = (row for row in read_trace(folder / "trace.jsonl") if isinstance(row, TraceRow))
    operations = [row for row in traced if row.iteration == shown]
    return build_run_view(entry, totals, list(read_metrics(folder / "metrics.jsonl")), shown, operations)


def build_run_view(
    entry: ReportEntry,
    totals: TraceTotals,
    metrics: Sequence[MetricsRow],
    shown: int | None,
    operations: Sequence[TraceRow],
) -> JsonObject:
    """A run so far: the totals of its trace, its metrics, and the operations of one iteration to show."""
    run = entry.run
    assert run is not None
    return {
        "ended": run.ended,
        "iterations": sum(not metric.evaluated for metric in metrics) or run.iterations,
        "iteration_s": run.iteration_s if run.iteration_s is not None else totals.median_s(),
        "energy_j": run.energy_j,
        "energy_source": run.energy_source,
        "accuracy": run.accuracy,
        "emulated": run.emulated,
        "shown": shown,
        "timeline": timeline_rows(operations),
        "energy": totals.energy(),
        "value": _value(entry, metrics, totals, run.dilation),
        **_loss_curves(metrics, totals, run.energy_j, run.dilation),
    }


def _value(
    entry: ReportEntry, metrics: Sequence[MetricsRow], totals: TraceTotals, dilation: float
) -> JsonObject | None:
    """Where the run stands beside the ideal curve of its plan, by the mean loss of its last complete epoch.

    None where the plan has no such curve, or no epoch is over.
    """
    ideal = IdealCurve.parsed(entry.plan.decision.get("ideal"))
    steps = [metric for metric in metrics if not metric.evaluated and metric.loss is not None]
    if ideal is None or not steps or entry.run is None:
        return None
    last = steps[-1].epoch or 0
    whole = last - 1 if entry.run.ended == "running" else last
    losses = [metric.loss for metric in steps if metric.epoch == whole and metric.loss is not None]
    time_s = next((_time_s(each, totals, dilation) for each in reversed(steps) if each.epoch == whole), None)
    if not losses or time_s is None:
        return None
    state = ideal.state(time_s, sum(losses) / len(losses))
    return state | {"verdict": verdict(state)}


def _time_s(metric: MetricsRow, totals: TraceTotals, dilation: float) -> float | None:
    """When an iteration ended, on the emulated clock."""
    at = totals.spans.get(metric.iteration)
    return at[1] if at else None if metric.wall_s is None else metric.wall_s / dilation


class TraceTotals:
    """Adds up a trace: when each iteration ended, and the energy that the nodes had used by then.

    A node idles from the start of an iteration to its end, but never twice at the same time: under ``async``,
    iterations overlap.
    """

    def __init__(self, entry: ReportEntry, prices: Evaluator | None) -> None:
        self._prices = prices
        phases = entry.plan.phases
        self._shares = {(i.node, i.id): i.cpu_share for phase in phases for i in phase.instances}
        self._planned = prices.price(phases[0]).nodes if prices else {}
        self.spans: dict[int, tuple[float, float]] = {}
        self.spent_j: dict[int, float] = {}
        self.nodes: dict[str, NodePrice] = {name: NodePrice() for name in self._planned}
        self._calls: dict[str, list[tuple[float, float, float]]] = {}
        self._number: int | None = None
        self._covered_s = self._whole_s = self._total_j = self._traced_j = 0.0
        self._start_s = self._end_s = 0.0

    def add(self, row: TraceRow | TraceSum) -> None:
        """Add an operation; those of an iteration come together. Or iterations of which there are only sums."""
        if isinstance(row, TraceSum):
            self.end_iteration()
            self._add_sum(row)
            return
        if row.iteration != self._number:
            self.end_iteration()
            self._number, self._start_s, self._end_s = row.iteration, row.start_s, row.end_s
        self._start_s, self._end_s = min(self._start_s, row.start_s), max(self._end_s, row.end_s)
        if row.op in ("forward", "backward", "update"):
            share = self._shares.get((row.node, row.instance), 1.0)
            self._calls.setdefault(row.node, []).append((row.start_s, row.end_s, share))

    def _add_sum(self, row: TraceSum) -> None:
        """Iterations of which there are only sums took as many joules as a mean one of those before."""
        known, many = len(self.spans), row.iteration - row.first_iteration + 1
        each_j = self._traced_j / known if known else 0.0
        for number in range(row.first_iteration, row.first_iteration + min(many, _MOST_SUMMED)):
            self._total_j += each_j
            self.spent_j[number] = self._total_j
        self._covered_s = max(self._covered_s, row.end_s)

    def end_iteration(self) -> None:
        """End the iteration that is being added."""
        if self._number is None:
            return
        start_s, end_s = self.spans.get(self._number, (self._start_s, self._end_s))
        self.spans[self._number] = (min(start_s, self._start_s), max(end_s, self._end_s))
        lasted_s = max(0.0, self._end_s - max(self._covered_s, self._start_s))
        self._covered_s = max(self._covered_s, self._end_s)
        self._whole_s += lasted_s
        joules = self._iteration_j(lasted_s)
        self._traced_j, self._total_j = self._traced_j + joules, self._total_j + joules
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

    def energy(self) -> JsonObject | None:
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
        """The duration of that iteration."""
        number = self.median()
        return None if number is None else self.spans[number][1] - self.spans[number][0]


def timeline_rows(operations: Iterable[TraceRow]) -> list[list[Any]]:
    """Operations of an iteration as the page draws them, from its first start."""
    found = sorted(operations, key=lambda row: row.start_s)
    zero_s = found[0].start_s if found else 0.0
    return [
        [row.node, row.instance, row.said, row.start_s - zero_s, row.end_s - zero_s, row.size_bytes]
        for row in found[:MAX_OPERATIONS]
    ]


def _loss_curves(
    metrics: Iterable[MetricsRow], totals: TraceTotals, energy_j: float | None, dilation: float
) -> JsonObject:
    """Loss over time and energy: [seconds, joules, loss, iteration, accuracy where it was evaluated].

    Joules so far are the trace's, scaled to the total that the run recorded.
    """
    total_j = max(totals.spent_j.values(), default=0.0)
    factor = None if totals.energy() is None else energy_j / total_j if energy_j and total_j else 1.0
    loss, evaluated = [], []
    for metric in metrics:
        time_s = _time_s(metric, totals, dilation)
        so_far_j = totals.spent_j.get(metric.iteration)
        joules = None if factor is None or so_far_j is None else so_far_j * factor
        row = [time_s, joules, metric.loss, metric.iteration]
        if metric.evaluated:
            evaluated.append([*row, metric.accuracy])
        else:
            loss.append(row)
    return {"loss": downsample(loss), "evaluated": downsample(evaluated)}


def downsample(rows: list[Any]) -> list[Any]:
    """At most ``MAX_POINTS`` rows, evenly spaced, including the last."""
    step = -(-len(rows) // MAX_POINTS)
    return rows if step <= 1 else rows[len(rows) - 1 :: -step][::-1]
