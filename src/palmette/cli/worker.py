"""``palmette worker``: this machine as a node that dials out to a hub, for ``--engine hub``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli.passphrase import PassphraseFile, read_passphrase
from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.runtime.engines.hub.dialler import HubDoor


def worker(
    hub: Annotated[
        str | None,
        typer.Argument(help="Address of the hub, such as hub.example:8443; a pack may have it."),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", help="The node that this machine is; a pack says it."),
    ] = None,
    keys: Annotated[
        Path,
        typer.Option(
            "--keys", help="Folder with this node's key and the certificates, or a file of palmette keys pack."
        ),
    ] = Path("keys"),
    passphrase_file: PassphraseFile = None,
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
    from palmette.runtime.engines.hub.dialler import HubWorker
    from palmette.runtime.sync.registry import WORKER_SIDES
    from palmette.runtime.worker.tuning import tune_worker

    allowed = allowed_names(allow or (), data or ())
    door = _packed(hub, node, keys, passphrase_file) if keys.is_file() else _from_folder(hub, node, keys)
    tune_worker()
    dialler = HubWorker(
        door,
        SetupBuilder(allowed, WORKER_SIDES, samples),
        lambda line: None if quiet else print(f"palmette: {line}", file=sys.stderr, flush=True),
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        dialler.run(once=once)
    finally:
        dialler.close()


def _from_folder(hub: str | None, node: str | None, folder: Path) -> Callable[[], HubDoor]:
    from palmette.runtime.engines.hub.dialler import HubDoor, hub_address
    from palmette.runtime.transports.keys.folder import Keys

    if hub is None or node is None:
        argument = "hub" if hub is None else "node"
        raise InputError(ArgumentFault(argument, "missing", "expected it, or a pack of keys that has it"))
    address, keys = hub_address(hub), Keys(folder)
    return lambda: HubDoor(address, keys.credentials(node))


def _packed(hub: str | None, node: str | None, file: Path, passphrase_file: Path | None) -> Callable[[], HubDoor]:
    """The way to the hub that a pack describes; what is typed counts for the address."""
    from palmette.runtime.engines.hub.dialler import HubDoor, hub_address
    from palmette.runtime.transports.keys.pack import open_pack

    pack = open_pack(file, read_passphrase(passphrase_file))
    if node not in (None, pack.node):
        raise InputError(ArgumentFault("node", node, f"{file} has the keys of {pack.node}; expected that node"))
    if hub is None and pack.hub is None:
        raise InputError(ArgumentFault("hub", "missing", f"{file} does not say where the hub is; expected host:port"))
    address = hub_address(pack.hub.address if hub is None and pack.hub is not None else hub or "")
    own = pack.keys.credentials(pack.node)
    return lambda: HubDoor(address, own)
