"""Variants of a plan side by side: kept as it is, and planned again."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cli.options import reason_of
from palmette.cli.show.comparison import (
    fitting_table,
    headings_of_totals,
    knows_carbon,
    knows_money,
    nodes_of,
    totals,
)
from palmette.cli.show.console import console, energy, time
from palmette.control.what_if import PlanVariant
from palmette.errors import PalmetteError
from palmette.spec.estimate import Estimate
from palmette.spec.plan import Plan

_LEAST = ("energy", "nodes", "iteration", "total energy", "total carbon", "total cost")


def show_variants(plan: Plan, found: Sequence[PlanVariant]) -> None:
    """Print two rows a variant of a plan, and why some of them are not possible."""
    rows = [(each.name, *row) for each in found for row in _rows(plan, each)]
    estimates = [price for _, _, price, _ in rows if isinstance(price, Estimate)]
    priced, emits = knows_money(estimates), knows_carbon(estimates)
    headings = ("variant", "plan", "iteration", "energy", *headings_of_totals(priced, emits), "nodes")
    cells = []
    for name, how, price, nodes in rows:
        if isinstance(price, Estimate):
            costs = time(price.iteration_s), energy(price.iteration_j), *totals(price, priced=priced, emits=emits)
            cells.append((name, how, *costs, ", ".join(nodes)))
        else:
            cells.append((name, how, "", "", "not possible", *[""] * (len(headings) - 5)))
    columns = {heading: [row[k] for row in cells] for k, heading in enumerate(headings)}
    out = console()
    out.print(fitting_table(columns, out.width, _LEAST, ("variant", "nodes")))
    for name, how, price, _ in rows:
        if isinstance(price, PalmetteError):
            out.print(f"{name}, {how}: {reason_of(price).splitlines()[0]}", style="dim", soft_wrap=True)


def _rows(plan: Plan, variant: PlanVariant) -> list[tuple[str, Estimate | PalmetteError, list[str]]]:
    planned = variant.planned
    again = planned.estimate if isinstance(planned, Plan) else planned
    assert again is not None, "a strategy that plans for a profile prices its plan"
    return [
        ("kept", variant.kept, nodes_of(plan)),
        ("planned again", again, nodes_of(planned) if isinstance(planned, Plan) else []),
    ]
