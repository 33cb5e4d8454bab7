"""Time and energy of all strategies, each planned for time and for energy, and their Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from palmette.plan.core.comparison import compare, mean_iteration
from palmette.plan.core.strategy import HORIZON_EPOCHS, Task
from palmette.report.entry import ReportEntry
from palmette.report.plan_view import JsonObject
from palmette.spec.estimate import Estimate
from palmette.spec.goal import Goal, Quantity
from palmette.spec.plan import Plan

GOALS: tuple[Quantity, ...] = ("time", "energy")


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
    own = [point for entry, view in zip(entries, views, strict=True) for point in _entry_points(entry, view, workloads)]
    for workload in workloads:
        planned, why = _plan_all(workload)
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
        "skipped": sorted(skipped.items()),
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


def _plan_all(workload: Workload) -> tuple[list[JsonObject], dict[str, str]]:
    """A row for each strategy and goal; where both goals cost the same, one row. And the skipped ones, and why."""
    rows: dict[tuple[Any, ...], JsonObject] = {}
    skipped: dict[str, str] = {}
    for goal in GOALS:
        task = workload.task
        found = compare(
            Task(profile=task.profile, cluster=task.cluster, batch=task.batch, goal=Goal(weights={goal: 1.0}))
        )
        for plan in found.plans:
            row = _row(plan, goal, workload.name)
            known = rows.setdefault((plan.strategy, row["time_s"], row["energy_j"]), row)
            if known is not row:
                known["goal"] += f", {goal}"
        skipped |= {name: str(error).splitlines()[0] for name, error in found.skipped.items()}
    planned = sorted(rows.values(), key=lambda row: (row["time_s"], row["energy_j"] or 0.0))
    names = {row["strategy"] for row in planned}
    return planned, {name: why for name, why in skipped.items() if name not in names}


def _row(plan: Plan, goal: str, workload: str) -> JsonObject:
    estimate = plan.estimate
    assert estimate is not None, "only plans with a price are compared"
    nodes = dict.fromkeys(instance.node for phase in plan.phases for instance in phase.instances)
    time_s, energy_j = _mean_iteration(estimate)
    return {
        "strategy": plan.strategy,
        "goal": goal,
        "workload": workload,
        "time_s": time_s,
        "energy_j": energy_j,
        "nodes": ", ".join(list(nodes)[:6]) + (", …" if len(nodes) > 6 else ""),
    }


def _mean_iteration(estimate: Estimate) -> tuple[float, float | None]:
    """Seconds and joules of an iteration in the mean over the epochs that a plan is for, the first included."""
    return mean_iteration(estimate, HORIZON_EPOCHS if estimate.epochs is None else int(estimate.epochs))


def _mark_front(rows: list[JsonObject], own: Sequence[JsonObject]) -> list[JsonObject]:
    """The rows, with ``on_front`` set where no row or plan of the page dominates them."""

    def dominates(a: JsonObject, b: JsonObject) -> bool:
        (a_s, a_j), (b_s, b_j) = (a["time_s"], a["energy_j"]), (b["time_s"], b["energy_j"])
        return a_j is not None and a_s <= b_s and a_j <= b_j and (a_s < b_s or a_j < b_j)

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
    time_s, energy_j = _mean_iteration(Estimate.model_validate(estimate))
    found = [
        base
        | {
            "time_s": time_s,
            "energy_j": energy_j,
            "how": "predicted",
            "measured": False,
        }
    ]
    if run and run["emulated"] and run["iteration_s"] and run["energy"]:
        joules = sum(sum(parts.values()) for parts in run["energy"]["nodes"].values())
        found.append(base | {"time_s": run["iteration_s"], "energy_j": joules, "how": "measured run", "measured": True})
    return found
