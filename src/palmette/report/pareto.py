"""Time and energy of all strategies: what each plans for either, and which of them nothing beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from palmette.plan.core.comparison import compare
from palmette.plan.core.strategy import Task
from palmette.report.entry import Entry
from palmette.report.plan_view import Record
from palmette.spec.goal import Goal
from palmette.spec.plan import Plan

GOALS = ("time", "energy")


@dataclass(frozen=True)
class World:
    """What several entries have in common: the same network on the same cluster in the same batches."""

    name: str
    task: Task


def front_view(entries: Sequence[Entry], views: Sequence[Record]) -> Record | None:
    """Points for a picture and rows for a table; None where no entry has both profile and cluster."""
    worlds = _worlds(entries)
    if not worlds:
        return None
    rows: list[Record] = []
    skipped: dict[str, str] = {}
    own = [point for entry, view in zip(entries, views, strict=True) for point in _own(entry, view, worlds)]
    for world in worlds:
        planned, why = _planned(world)
        rows += _marked(planned, [point for point in own if point["world"] == world.name and not point["measured"]])
        skipped |= {name: f"{world.name}: {reason}" if len(worlds) > 1 else reason for name, reason in why.items()}
    return {
        "worlds": [world.name for world in worlds],
        "points": [_point(row) for row in rows if row["energy_j"] is not None] + own,
        "rows": rows,
        "skipped": sorted(skipped.items()),
    }


def _worlds(entries: Sequence[Entry]) -> list[World]:
    """One for each profile, cluster and batch."""
    worlds: list[World] = []
    for entry in entries:
        if entry.profile is None or entry.cluster is None or _world(entry, worlds):
            continue
        name = f"{entry.plan.model}, batch {entry.plan.batch}"
        many = sum(world.name.startswith(name) for world in worlds)
        task = Task(profile=entry.profile, cluster=entry.cluster, batch=entry.plan.batch)
        worlds.append(World(name if not many else f"{name} ({many + 1})", task))
    return worlds


def _world(entry: Entry, worlds: Sequence[World]) -> World | None:
    def same(world: World) -> bool:
        task = world.task
        return (task.batch, task.profile, task.cluster) == (entry.plan.batch, entry.profile, entry.cluster)

    return next((world for world in worlds if same(world)), None)


def _planned(world: World) -> tuple[list[Record], dict[str, str]]:
    """A row for each strategy and goal; where both goals give the same price, one row. And who has none, and why."""
    rows: dict[tuple[Any, ...], Record] = {}
    skipped: dict[str, str] = {}
    for goal in GOALS:
        task = world.task
        found = compare(
            Task(profile=task.profile, cluster=task.cluster, batch=task.batch, goal=Goal(weights={goal: 1.0}))
        )
        for plan in found.plans:
            row = _row(plan, goal, world.name)
            known = rows.setdefault((plan.strategy, row["time_s"], row["energy_j"]), row)
            if known is not row:
                known["goal"] += f", {goal}"
        skipped |= {name: str(error).splitlines()[0] for name, error in found.skipped.items()}
    planned = sorted(rows.values(), key=lambda row: (row["time_s"], row["energy_j"] or 0.0))
    names = {row["strategy"] for row in planned}
    return planned, {name: why for name, why in skipped.items() if name not in names}


def _row(plan: Plan, goal: str, world: str) -> Record:
    estimate = plan.estimate
    assert estimate is not None, "only plans with a price are compared"
    nodes = dict.fromkeys(instance.node for phase in plan.phases for instance in phase.instances)
    return {
        "strategy": plan.strategy,
        "goal": goal,
        "world": world,
        "time_s": estimate.iteration_s,
        "energy_j": estimate.iteration_j,
        "nodes": ", ".join(list(nodes)[:6]) + (", …" if len(nodes) > 6 else ""),
    }


def _marked(rows: list[Record], own: Sequence[Record]) -> list[Record]:
    """The rows, with ``front`` on those that nothing beats: no row or plan of the page is as good and better in one."""

    def beats(a: Record, b: Record) -> bool:
        (a_s, a_j), (b_s, b_j) = (a["time_s"], a["energy_j"]), (b["time_s"], b["energy_j"])
        return a_j is not None and a_s <= b_s and a_j <= b_j and (a_s < b_s or a_j < b_j)

    for row in rows:
        row["front"] = row["energy_j"] is not None and not any(beats(other, row) for other in (*rows, *own))
    return rows


def _point(row: Record) -> Record:
    return {
        "strategy": row["strategy"],
        "world": row["world"],
        "time_s": row["time_s"],
        "energy_j": row["energy_j"],
        "how": f"planned for {row['goal'].replace(',', ' and')}",
        "given": None,
        "measured": False,
    }


def _own(entry: Entry, view: Record, worlds: Sequence[World]) -> list[Record]:
    """The points of an entry: what was predicted of it, and what was measured."""
    world = _world(entry, worlds)
    estimate, run = view["estimate"], view["run"]
    if world is None or estimate is None or estimate["iteration_j"] is None:
        return []
    base = {"strategy": entry.plan.strategy, "world": world.name, "given": entry.name}
    found = [
        base
        | {
            "time_s": estimate["iteration_s"],
            "energy_j": estimate["iteration_j"],
            "how": "predicted",
            "measured": False,
        }
    ]
    if run and run["emulated"] and run["iteration_s"] and run["energy"]:
        joules = sum(sum(parts.values()) for parts in run["energy"]["nodes"].values())
        found.append(base | {"time_s": run["iteration_s"], "energy_j": joules, "how": "measured run", "measured": True})
    return found
