"""``palmette hardware``: the catalogue of hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from palmette.cli import options as opt

if TYPE_CHECKING:
    from palmette.zoo.hardware import Hardware


def hardware(json_: opt.Json = False) -> None:
    """List the hardware that a cluster file may name.

    Example: palmette hardware
    """
    from dataclasses import asdict

    from palmette.cli.show.console import print_json
    from palmette.zoo.hardware import hardware as entry
    from palmette.zoo.hardware import names

    if json_:
        print_json({"hardware": [asdict(entry(name)) for name in names()]})
    else:
        show_hardware([entry(name) for name in names()])


def show_hardware(entries: Sequence[Hardware]) -> None:
    """Print the catalogue: each machine's sustained training speed, memory and power."""
    from rich.table import Table

    from palmette.cli.show.console import console, count, size, time

    table = Table("hardware", box=None, pad_edge=False)
    for heading in ("training", "memory bandwidth", "memory", "idle", "busy", "overhead per call"):
        table.add_column(heading, justify="right")
    for entry in entries:
        table.add_row(
            entry.name,
            f"{count(entry.training_flops_per_s)}FLOP/s",
            f"{count(entry.memory_bandwidth_bytes_per_s)}B/s",
            size(entry.memory_bytes),
            f"{entry.idle_w:g} W",
            f"{entry.busy_w:g} W",
            time(entry.call_s),
        )
    console().print(table)
