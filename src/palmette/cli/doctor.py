"""``palmette doctor``: what this machine, and those of a cluster, can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.cli.run_places import HolderName, hub_runs

if TYPE_CHECKING:
    from palmette.control.doctor import Finding

_SIGNS = {"ok": "ok", "absent": "–", "wrong": "WRONG"}


def doctor(
    cluster: Annotated[
        Path | None, typer.Option("--cluster", help="Also check the hosts of its nodes in the Ray cluster.")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="Also check when the certificates in this folder expire.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="Also check the workers that are connected to this hub: host:port.")
    ] = None,
    name: HolderName = None,
    json_: opt.Json = False,
) -> None:
    """Show what this machine can do, and how to fix what is missing; exit code 1 if something is wrong.

    Example: palmette doctor --keys keys
    """
    from palmette.api import load_cluster
    from palmette.cli.show.console import print_json
    from palmette.control.doctor import examine, examine_hosts, examine_hub

    nodes = [] if cluster is None else list(load_cluster(cluster).nodes)
    found = {"this machine": examine(keys)}
    if nodes:
        found |= examine_hosts(nodes)
    if at is not None:
        found |= examine_hub(lambda: hub_runs(at, keys, name).workers())
    if json_:
        print_json({"machines": {name: [each.as_json() for each in findings] for name, findings in found.items()}})
    else:
        show_findings(found)
    if any(each.status == "wrong" for findings in found.values() for each in findings):
        raise typer.Exit(1)


def show_findings(found: Mapping[str, Sequence[Finding]]) -> None:
    """Print a table per machine."""
    from rich.table import Table

    from palmette.cli.show.console import console

    for name, findings in found.items():
        table = Table(name, "", "found", "what to do", box=None, pad_edge=False)
        for each in findings:
            table.add_row(each.subject, _SIGNS[each.status], each.found, each.fix)
        console().print(table)
