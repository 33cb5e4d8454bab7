"""A choice of devices as people see it: the ranking, by how much the best leads, and the Pareto front."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from palmette.cli.show.console import console, energy, time

SHOWN_DEVICES = 6


def show_choice(decision: dict[str, Any]) -> None:
    """Print what ``palmette plan cluster`` decided."""
    out = console()
    out.print(f"devices: {_devices(decision)}; parameter server on {decision['parameter_server']}")
    out.print(_goal_line(decision))
    if "init" in decision:
        out.print(f"{decision['steps']} steps are left; they start from {decision['init']}")
    _show_rows(out, "the best clusters", decision["ranking"])
    if "pareto" in decision:
        among = "all clusters" if decision["pareto_exact"] else "those considered"
        _show_rows(out, f"Pareto front of time and energy among {among}", decision["pareto"])


def _goal_line(decision: dict[str, Any]) -> str:
    lead, others = decision["lead"], len(decision["ranking"]) > 1
    ahead = "the next best cannot be compared with 0" if others else "there is no other cluster"
    ahead = ahead if lead is None else f"the next best is {lead:.2%} behind"
    proof = "the best of all" if decision["exact"] else f"at most {decision['gap']:.2%} from the best of all"
    return f"goal {decision['goal']}: {proof}; {ahead}"


def _devices(row: dict[str, Any]) -> str:
    names = row["devices"]
    more = f" and {len(names) - SHOWN_DEVICES} more" if len(names) > SHOWN_DEVICES else ""
    return ", ".join(names[:SHOWN_DEVICES]) + more


def _show_rows(out: Console, title: str, rows: list[dict[str, Any]]) -> None:
    table = Table("", title, box=None, pad_edge=False)
    for heading in ("time", "power", "energy", "energy × time"):
        table.add_column(heading, justify="right")
    for place, row in enumerate(rows, 1):
        product = f"{row['edp_js']:.3g} J·s"
        table.add_row(
            str(place), _devices(row), time(row["time_s"]), f"{row['power_w']:.3g} W", energy(row["energy_j"]), product
        )
    out.print(table)
