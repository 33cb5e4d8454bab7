"""``palmette ls``: the runs without a terminal, on this machine or at a hub."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.cli.run_places import HolderName, HubAt, HubKeys, hub_runs, run_place
from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.runtime.engines.hub.requests import WorkerEntry
    from palmette.spec.run_entry import RunEntry


def ls(
    at: HubAt = None,
    keys: HubKeys = None,
    name: HolderName = None,
    workers: Annotated[
        bool, typer.Option("--workers", help="List the workers that are connected to the hub instead of its runs.")
    ] = False,
    json_: opt.Json = False,
) -> None:
    """List runs that were started with --detach: on this machine, or at a hub.

    Example: palmette ls --at hub.example:8443 --keys keys
    """
    if workers:
        if at is None and keys is None:
            raise InputError(
                ArgumentFault("workers", "given", "this machine is no hub; expected its address with --at")
            )
        _show_workers(hub_runs(at, keys, name).workers(), json_)
    else:
        _show_runs(run_place(at, keys, name).entries(), json_)


def _show_runs(found: Sequence[RunEntry], json_: bool) -> None:
    if json_:
        _print_json({"runs": [each.model_dump(mode="json") for each in found]})
        return
    rows = [("run", "state", "iterations", "loss", "what", "since", "")]
    for each in found:
        loss = "–" if each.loss is None else f"{each.loss:.4f}"
        what = f"{each.strategy} for {each.model}" if each.model else "–"
        about = each.why or (f"by {each.by}" if each.by else each.folder)
        rows.append((each.run, each.state, str(each.iterations), loss, what, each.since[:16].replace("T", " "), about))
    _print_table(rows, "no run was started with --detach")


def _show_workers(found: Sequence[WorkerEntry], json_: bool) -> None:
    if json_:
        _print_json({"workers": [each.model_dump(mode="json") for each in found]})
        return
    rows = [("node", "since", "palmette", "torch", "limits")]
    for each in found:
        since = each.since[:16].replace("T", " ")
        rows.append((each.node, since, each.palmette_version, each.torch_version, each.limits.text() or "none"))
    _print_table(rows, "no worker is connected")


def _print_json(data: object) -> None:
    from palmette.cli.show.console import print_json

    print_json(data)


def _print_table(rows: Sequence[Sequence[str]], nothing: str) -> None:
    """Print rows under the first of them; where there are none, say so on standard error."""
    if len(rows) == 1:
        print(f"palmette: {nothing}", file=sys.stderr)
        return
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, wide, strict=True)).rstrip())
