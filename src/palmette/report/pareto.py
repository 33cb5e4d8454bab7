"""What the plans of all strategies take, each planned for time and for energy, and their Pareto front.

Where the cluster knows prices and carbon intensities, also for money and carbon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from palmette.plan.core.comparison import compare, mean_iteration
from palmette.plan.core.strategy import HORIZON_EPOCHS, Task
from palmette.report.entry import ReportEntry
from palmette.report.plan_view import JsonObject
from palmette.report.sliders import sliders_view
from palmette.spec.cluster import Cluster
from palmette.spec.estimate import Estimate
from palmette.spec.goal import Goal, Quantity, Spending
from palmette.spec.plan import Plan

GOALS: tuple[Quantity, ...] = ("time", "energy", "cost", "carbon")
_FIGURES = ("time_s", "energy_j", "cost", "carbon_g")


@dataclass(frozen=True)
class Workload:
    """A network on a cluster with a batch size, which several entries may share."""

    name: str
    task: Task


def pareto_view(entries: Sequence[ReportEntry], views: Sequence[JsonObject]) -> JsonObject | None:
    """Points for the chart and rows for the table; None where no entry has both profile and cluster."""
    workloads = _workloads(entries)
    if not workloads:
        return None
    rows: list[JsonObject] = []
    skipped: dict[str, str] = {}
    sliders: list[JsonObject | None] = []
    own = [point for entry, view in zip(entries, views, strict=True) for point in _entry_points(entry, view, workloads)]
    for workload in workloads:
        planned, plans, why = _plan_all(workload)
        sliders.append(sliders_view(plans, workload.task))
        rows += _mark_front(
            planned, [point for point in own if point["workload"] == workload.name and not point["measured"]]
        )
        skipped |= {
            name: f"{workload.name}: {reason}" if len(workloads) > 1 else reason for name, reason in why.items()
        }
    return {
        "workloads": [workload.name for workload in workloads],
        "points": [_point(row) for row in rows if row["energy_j"] is not None] + own,
        "rows": rows,
        "currency": next((c for workload in workloads if (c := workload.task.cluster.currency)), None),
        "skipped": sorted(skipped.items()),
        "sliders": sliders,
    }


def _workloads(entries: Sequence[ReportEntry]) -> list[Workload]:
    """One for each profile, cluster and batch size."""
    workloads: list[Workload] = []
    for entry in entries:
        if entry.profile is None or entry.cluster is None or _workload_of(entry, workloads):
            continue
        name = f"{entry.plan.model}, batch {entry.plan.batch}"
        many = sum(workload.name.startswith(name) for workload in workloads)
        task = Task(profile=entry.profile, cluster=entry.cluster, batch=entry.plan.batch)
        workloads.append(Workload(name if not many else f"{name} ({many + 1})", task))
    return workloads


def _workload_of(entry: ReportEntry, workloads: Sequence[Workload]) -> Workload | None:
    def same(workload: Workload) -> bool:
        task = workload.task
        return (task.batch, task.profile, task.cluster) == (entry.plan.batch, entry.profile, entry.cluster)

    return next((workload for workload in workloads if same(workload)), None)


def _plan_all(workload: Workload) -> tuple[list[JsonObject], list[Plan], dict[str, str]]:
    """A row for each strategy and goal; where goals have the same plan, one row. And the skipped ones, and why."""
    rows: dict[tuple[Any, ...], JsonObject] = {}
    plans: list[Plan] = []
    skipped: dict[str, str] = {}
    for goal in _goals(workload.task.cluster):
        found = compare(replace(workload.task, goal=Goal(weights={goal: 1.0})))
        plans += found.plans
        for plan in found.plans:
            row = _row(plan, goal, workload.name)
            known = rows.setdefault((plan.strategy, *_figures(row)), row)
            if known is not row:
                known["goal"] += f", {goal}"
        skipped |= {name: str(error).splitlines()[0] for name, error in found.skipped.items()}
    planned = sorted(rows.values(), key=lambda row: (row["time_s"], row["energy_j"] or 0.0))
    names = {row["strategy"] for row in planned}
    return planned, plans, {name: why for name, why in skipped.items() if name not in names}


def _row(plan: Plan, goal: str, workload: str) -> JsonObject:
    estimate = plan.estimate
    assert estimate is not None, "only plans with a price are compared"
    nodes = dict.fromkeys(instance.node for phase in plan.phases for instance in phase.instances)
    return {
        "strategy": plan.strategy,
        "goal": goal,
        "workload": workload,
        **_mean_iteration(estimate)._asdict(),
        "nodes": ", ".join(list(nodes)[:6]) + (", …" if len(nodes) > 6 else ""),
    }


def _goals(cluster: Cluster) -> list[Quantity]:
    """The goals that can be planned for; carbon alone where all electricity is the same is energy."""
    intensities = {cluster.carbon_of(name) for name in cluster.nodes}
    known = {"cost": cluster.currency is not None, "carbon": len(intensities) > 1}
    return [goal for goal in GOALS if known.get(goal, True)]


def _figures(row: JsonObject) -> tuple[Any, ...]:
    """What a row takes of each."""
    return tuple(row[name] for name in _FIGURES)


def _mean_iteration(estimate: Estimate) -> Spending:
    """What an iteration takes in the mean over the epochs that a plan is for, the first included."""
    return mean_iteration(estimate, HORIZON_EPOCHS if estimate.epochs is None else int(estimate.epochs))


def _mark_front(rows: list[JsonObject], own: Sequence[JsonObject]) -> list[JsonObject]:
    """The rows, with ``on_front`` set where no row or plan of the page dominates them."""

    def dominates(a: JsonObject, b: JsonObject) -> bool:
        pairs = [(one, other) for one, other in zip(_figures(a), _figures(b), strict=True) if other is not None]
        known = all(one is not None for one, _ in pairs)
        return known and all(one <= other for one, other in pairs) and any(one < other for one, other in pairs)

    for row in rows:
        row["on_front"] = row["energy_j"] is not None and not any(dominates(other, row) for other in (*rows, *own))
    return rows


def _point(row: JsonObject) -> JsonObject:
    return {
        "strategy": row["strategy"],
        "workload": row["workload"],
        "time_s": row["time_s"],
        "energy_j": row["energy_j"],
        "how": f"planned for {row['goal'].replace(',', ' and')}",
        "entry": None,
        "measured": False,
    }


def _entry_points(entry: ReportEntry, view: JsonObject, workloads: Sequence[Workload]) -> list[JsonObject]:
    """The points of an entry: what was predicted of it, and what was measured."""
    workload = _workload_of(entry, workloads)
    estimate, run = view["estimate"], view["run"]
    if workload is None or estimate is None or estimate["iteration_j"] is None:
        return []
    base = {"strategy": entry.plan.strategy, "workload": workload.name, "entry": entry.name}
    spent = _mean_iteration(Estimate.model_validate(estimate))._asdict()
    found = [base | spent | {"how": "predicted", "measured": False}]
    if run and run["emulated"] and run["iteration_s"] and run["energy"]:
        joules = sum(sum(parts.values()) for parts in run["energy"]["nodes"].values())
        found.append(base | {"time_s": run["iteration_s"], "energy_j": joules, "how": "measured run", "measured": True})
    return found
