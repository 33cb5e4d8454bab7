"""``palmette fetch``: what a run at a hub has written, copied to this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli.run_places import HolderName, HubAt, HubKeys, RunName, find_run, hub_runs
from palmette.errors import Fault, InputError

if TYPE_CHECKING:
    from palmette.runtime.engines.hub.requests import RunFile, WeightsFile

FILES: tuple[RunFile, ...] = ("run.json", "log.txt", "metrics.jsonl", "trace.jsonl")
WEIGHTS: tuple[WeightsFile, ...] = ("model.safetensors", "best.safetensors")


def fetch(
    run: RunName,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to create.")],
    at: HubAt = None,
    keys: HubKeys = None,
    name: HolderName = None,
) -> None:
    """Copy the weights and records of a run at a hub to this machine; needs the role operator.

    Example: palmette fetch 3f2a -o run --at hub.example:8443
    """
    from palmette.cli.mirror import copy_rest
    from palmette.spec.files import make_folder

    place = hub_runs(at, keys, name)
    found = find_run(place, run).run
    if output.exists():
        raise InputError(Fault("", "the folder", "exists already; choose another name", str(output)))
    first = place.read_weights(found, WEIGHTS[0], 0)  # before a folder is made for somebody who may not
    if not first[1]:
        raise InputError(Fault("RUN", found, "it has no weights yet; expected one that has ended"))
    make_folder(output)
    sizes = [copy_rest(partial(place.read, found, each), output / each) for each in FILES]
    sizes += [copy_rest(partial(place.read_weights, found, each), output / each) for each in WEIGHTS]
    print(f"{output}: {sum(map(bool, sizes))} files, {sum(sizes):,} bytes")
