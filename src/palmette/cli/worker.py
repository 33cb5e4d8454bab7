"""``palmette worker``: this machine as a node that dials out to a hub, for ``--engine hub``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli.passphrase import PassphraseFile, read_passphrase
from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.runtime.engines.hub.access import HubAccess
    from palmette.runtime.transports.keys.credentials import Credentials


def worker(
    hub: Annotated[
        str | None,
        typer.Argument(help="Address of the hub, such as hub.example:8443; a pack may contain it."),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", help="The node that this machine is; a pack names it."),
    ] = None,
    keys: Annotated[
        Path,
        typer.Option(
            "--keys", help="Folder with this node's key and the certificates, or a file of palmette keys pack."
        ),
    ] = Path("keys"),
    passphrase_file: PassphraseFile = None,
    enroll: Annotated[
        str | None,
        typer.Option("--enroll", help="First get a certificate, with a code of palmette keys invite; - to type it."),
    ] = None,
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
    meter: Annotated[
        str | None,
        typer.Option("--meter", help="Power meter of this machine: zeus, replay:FILE or catalogue:NAME."),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            "--samples",
            help="Folder for samples of other nodes; the system's temporary folder if not given.",
        ),
    ] = None,
    cpu: Annotated[
        str | None, typer.Option("--cpu", help="Largest share of the CPU that a plan may use, such as 50%.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Most memory that this process may use, such as 2 GiB.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option("--storage", help="Most disk space for samples of other nodes, such as 10 GB.")
    ] = None,
    hours: Annotated[
        str | None, typer.Option("--hours", help="Work only in these hours of the day, such as 22:00-07:00.")
    ] = None,
    mains: Annotated[bool, typer.Option("--mains", help="Work only while this machine is not on battery.")] = False,
    any_version: Annotated[
        bool, typer.Option("--any-version", help="Also work for a hub whose torch was not tested with the one here.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Exit after one run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Start a worker: connect to a hub, wait for runs, and reconnect when the connection is lost.

    Example: palmette worker hub.example:8443 --keys keys --node phone
    """
    from palmette.measure.meters.registry import open_meter
    from palmette.measure.probing import WorkerProbes
    from palmette.runtime.engines.hub.allowed import allowed_names
    from palmette.runtime.engines.hub.building import SetupBuilder
    from palmette.runtime.engines.hub.dialler import HubWorker
    from palmette.runtime.engines.hub.limits import worker_limits
    from palmette.runtime.sync.registry import WORKER_SIDES
    from palmette.runtime.worker.tuning import tune_worker

    allowed = allowed_names(allow or (), data or ())
    limits = worker_limits(cpu, memory, storage, hours, mains)
    if enroll is not None:
        hub, node = _enrolled(enroll, keys, hub, node)
    access = (
        access_from_pack(hub, node, keys, passphrase_file) if keys.is_file() else access_from_folder(hub, node, keys)
    )
    tune_worker()
    dialler = HubWorker(
        access,
        SetupBuilder(allowed, WORKER_SIDES, samples, limits),
        WorkerProbes(allowed, None if meter is None else open_meter(meter)),
        lambda line: None if quiet else print(f"palmette: {line}", file=sys.stderr, flush=True),
        any_version=any_version,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        dialler.run(once=once)
    finally:
        dialler.close()


def _enrolled(code: str, folder: Path, hub: str | None, node: str | None) -> tuple[str, str]:
    """Get a certificate with a code, and keep it in a folder; returns the hub's address and the node."""
    from palmette.runtime.engines.hub.enrolment import enrolled
    from palmette.runtime.transports.keys.folder import Keys
    from palmette.runtime.transports.keys.invitation import read_invitation

    typed = str(typer.prompt("Code", hide_input=True, err=True)) if code == "-" else code
    found = read_invitation(typed.strip())
    if node not in (None, found.own.node):
        raise InputError(ArgumentFault("node", node, f"the code is for {found.own.node}; expected that node"))
    enrolled(found, Keys(folder))
    print(f"palmette: {folder} has the certificate of {found.own.node} now", file=sys.stderr, flush=True)
    return hub or found.address, found.own.node


def access_from_folder(hub: str | None, node: str | None, folder: Path) -> Callable[[], HubAccess]:
    """The way to a hub with the keys in a folder, which are read again each time.

    Raises:
        InputError: the address or the name is missing, or the keys are.
    """
    from palmette.runtime.engines.hub.access import HubAccess, hub_address
    from palmette.runtime.transports.keys.folder import Keys

    if not folder.exists():
        raise InputError(ArgumentFault("keys", str(folder), "is not there; expected a folder of keys, or a pack"))
    if hub is None or node is None:
        argument = "hub" if hub is None else "node"
        raise InputError(ArgumentFault(argument, "missing", "expected it, or a pack of keys that has it"))
    address, keys = hub_address(hub), Keys(folder)
    return lambda: HubAccess(address, keys.credentials(node), keys.keep_certificate)


def access_from_pack(
    hub: str | None, node: str | None, file: Path, passphrase_file: Path | None
) -> Callable[[], HubAccess]:
    """The way to the hub that a pack describes; what is typed counts for the address.

    Raises:
        InputError: the pack cannot be opened, or is another node's, or nothing says where the hub is.
    """
    from palmette.runtime.engines.hub.access import HubAccess, hub_address
    from palmette.runtime.transports.keys.pack import open_pack, renew_pack

    secret = read_passphrase(passphrase_file)
    pack = open_pack(file, secret)
    if node not in (None, pack.node):
        raise InputError(ArgumentFault("node", node, f"{file} has the keys of {pack.node}; expected that node"))
    if hub is None and pack.hub is None:
        raise InputError(ArgumentFault("hub", "missing", f"{file} does not say where the hub is; expected host:port"))
    address = hub_address(pack.hub.address if hub is None and pack.hub is not None else hub or "")
    held = [pack.keys.credentials(pack.node)]

    def keep(renewed: Credentials) -> None:
        held[0] = renewed
        with suppress(InputError):  # where it cannot be written, it is renewed again
            renew_pack(file, secret, renewed)

    return lambda: HubAccess(address, held[0], keep)
