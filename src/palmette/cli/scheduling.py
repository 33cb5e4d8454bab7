"""A schedule of models and nodes as people see it: who trains what for how long, and what it comes to."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from palmette.cli.show import console, energy, time


def show_schedule(decision: dict[str, Any]) -> None:
    """Print what ``palmette plan pact`` and its rivals decided."""
    out = console()
    table = Table("model", "nodes", box=None, pad_edge=False)
    table.add_column("epochs", justify="right")
    for stretch in decision["schedule"]:
        table.add_row(stretch["model"], stretch["nodes"], str(stretch["epochs"]))
    out.print(table)
    cost = f"{time(decision['time_s'])}, {energy(decision['energy_j'])}"
    out.print(f"a loss of {decision['loss']:.4g} after {cost}")
