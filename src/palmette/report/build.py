"""From plans and runs to a page: everything is worked out here, the page only draws."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.report.entry import Entry
from palmette.report.page import page
from palmette.report.pareto import front_view
from palmette.report.plan_view import Record, plan_view
from palmette.report.run_view import run_view


def report(entries: Sequence[Entry], *, with_rivals: bool = True) -> str:
    """The page of plans and runs, as the text of an HTML file; ``with_rivals`` plans with every strategy.

    Raises:
        InputError: a plan cannot be carried out on its cluster, or a run's files cannot be read.
    """
    views = [entry_view(entry) for entry in entries]
    front = front_view(entries, views) if with_rivals else None
    return page(title_of(entries), lead_of(entries), {"live": None, "entries": views, "front": front})


def entry_view(entry: Entry) -> Record:
    """What the page needs to know of a plan or a run."""
    view = plan_view(entry)
    return view if entry.run is None else view | {"run": run_view(entry)}


def title_of(entries: Sequence[Entry]) -> str:
    """What the page is about, in a few words."""
    models = list(dict.fromkeys(entry.plan.model for entry in entries))
    named = ", ".join(models[:3]) + (", …" if len(models) > 3 else "")
    nodes = {len(entry.cluster.nodes) for entry in entries if entry.cluster}
    return f"Training {named}" + (f" on {nodes.pop()} nodes" if len(nodes) == 1 else "")


def lead_of(entries: Sequence[Entry]) -> str:
    """What stands under the title: what was given."""
    runs = sum(entry.run is not None for entry in entries)
    plans = len(entries) - runs
    counted = [f"{many} {word}{'s' * (many > 1)}" for many, word in ((plans, "plan"), (runs, "run")) if many]
    return f"{' and '.join(counted)}: {', '.join(entry.name for entry in entries)}"
