"""From plans and runs to a page: everything is computed here, the page only draws."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.report.entry import ReportEntry
from palmette.report.page import render_page
from palmette.report.pareto import pareto_view
from palmette.report.plan_view import JsonObject, plan_view
from palmette.report.run_view import run_view


def build_report(entries: Sequence[ReportEntry], *, with_rivals: bool = True) -> str:
    """The page of plans and runs, as the text of an HTML file; ``with_rivals`` also plans with every strategy.

    Raises:
        InputError: a plan cannot be executed on its cluster, or a run's files cannot be read.
    """
    views = [entry_view(entry) for entry in entries]
    pareto = pareto_view(entries, views) if with_rivals else None
    return render_page(page_title(entries), page_lead(entries), {"live": None, "entries": views, "pareto": pareto})


def entry_view(entry: ReportEntry) -> JsonObject:
    """A plan or a run as the page shows it."""
    view = plan_view(entry)
    return view if entry.run is None else view | {"run": run_view(entry)}


def page_title(entries: Sequence[ReportEntry]) -> str:
    """The title: the networks and the number of nodes."""
    models = list(dict.fromkeys(entry.plan.model for entry in entries))
    named = ", ".join(models[:3]) + (", …" if len(models) > 3 else "")
    nodes = {len(entry.cluster.nodes) for entry in entries if entry.cluster}
    return f"Training {named}" + (f" on {nodes.pop()} nodes" if len(nodes) == 1 else "")


def page_lead(entries: Sequence[ReportEntry]) -> str:
    """The line under the title: the plans and runs on the page."""
    runs = sum(entry.run is not None for entry in entries)
    plans = len(entries) - runs
    counted = [f"{many} {word}{'s' * (many > 1)}" for many, word in ((plans, "plan"), (runs, "run")) if many]
    return f"{' and '.join(counted)}: {', '.join(entry.name for entry in entries)}"
