"""``palmette worker``: this machine as a node that dials out to a hub, for ``--engine hub``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer


def worker(
    hub: Annotated[str, typer.Argument(help="Address of the hub, such as hub.example:8443.")],
    node: Annotated[str, typer.Option("--node", help="The node that this machine is.", show_default=False)],
    keys: Annotated[
        Path, typer.Option("--keys", help="Folder with this node's key, its certificate and the authority's.")
    ] = Path("keys"),
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", help="Code that runs may use: package.module:name; may be repeated."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", help="Data that runs may use: NAME=WHAT, such as photos=folder:/srv/photos; may be repeated."
        ),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            "--samples", help="Folder for kept samples of other nodes; that for temporary files if not given."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when the hub has left after a run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Work for a hub: connect to it, wait for runs, and connect again when the connection is lost.

    Example: palmette worker hub.example:8443 --keys keys --node phone
    """
    from palmette.runtime.engines.hub.allowed import allowed_names
    from palmette.runtime.engines.hub.building import SetupBuilder
    from palmette.runtime.engines.hub.dialler import HubDoor, HubWorker, hub_address
    from palmette.runtime.sync.registry import WORKER_SIDES
    from palmette.runtime.transports.keys.folder import Keys
    from palmette.runtime.worker.tuning import tune_worker

    address, allowed = hub_address(hub), allowed_names(allow or (), data or ())
    tune_worker()
    known = Keys(keys)
    dialler = HubWorker(
        lambda: HubDoor(address, known.credentials(node)),
        SetupBuilder(allowed, WORKER_SIDES, samples),
        lambda line: None if quiet else print(f"palmette: {line}", file=sys.stderr, flush=True),
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        dialler.run(once=once)
    finally:
        dialler.close()
