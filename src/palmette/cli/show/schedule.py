"""A schedule of models and nodes as people see it: which nodes train which model for how long, and its cost."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from palmette.cli.show.console import console, energy, time
from palmette.predict.ideal_curve import verdict


def show_schedule(decision: dict[str, Any]) -> None:
    """Print what ``palmette plan pact`` and its rivals decided."""
    out = console()
    table = Table("model", "nodes", box=None, pad_edge=False)
    for heading in ("epochs", "until", "loss"):
        table.add_column(heading, justify="right")
    table.add_column("beside the ideal curve")
    for stage, end in zip(decision["schedule"], decision["progress"], strict=True):
        row = (str(stage["epochs"]), time(end["time_s"]), f"{end['loss']:.4g}", verdict(end))
        model = stage["model"] + (" (distilled)" if stage.get("compress") == "distill" else "")
        table.add_row(model, stage["nodes"], *row)
    out.print(table)
    cost = f"{time(decision['time_s'])}, {energy(decision['energy_j'])}"
    out.print(f"loss {decision['loss']:.4g} after {cost}")
    for warning in decision.get("warnings", ()):
        out.print(Text(f"note: {warning}"))
