"""``palmette keys``: a private authority and a certificate a node, for ``--transport tls``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.errors import Fault, InputError

keys = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="A private authority, and a certificate for each node: who may take part in a run over --transport tls."
    "\n\nExample: palmette keys init --keys keys",
)

Folder = Annotated[Path, typer.Option("--keys", help="The folder of the keys.")]


@keys.command()
def init(
    folder: Folder = Path("keys"),
    days: Annotated[int, typer.Option("--days", min=1, help="How long the authority counts.")] = 5 * 365,
) -> None:
    """Make a private authority.

    Example: palmette keys init --keys keys
    """
    from palmette.runtime.transports.keys.folder import Keys

    made = Keys(folder).init(days)
    print(f"{folder / 'authority.crt'}: counts until {made.not_valid_after_utc.date()}")
    print(f"{folder / 'authority.key'}: signs certificates; keep it off the nodes")


@keys.command()
def issue(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes, as in the cluster file.")],
    folder: Folder = Path("keys"),
    days: Annotated[int, typer.Option("--days", min=1, help="How long the certificates count.")] = 90,
    address: Annotated[
        list[str] | None, typer.Option("--address", help="A host name or IP that the certificate is also for.")
    ] = None,
) -> None:
    """Make a key and a certificate for each node; none that still counts is replaced.

    Example: palmette keys issue phone server cloud
    """
    from palmette.runtime.transports.keys.folder import Keys

    if address and len(nodes) > 1:
        raise InputError(Fault("--address", ", ".join(address), f"expected one node, not {len(nodes)}"))
    known = Keys(folder)
    for node in nodes:
        known.refuse_issued(node)
    for node in dict.fromkeys(nodes):
        made = known.issue(node, days, address or ())
        print(f"{node}: counts until {made.not_valid_after_utc.date()}")


@keys.command()
def revoke(
    node: Annotated[str, typer.Argument(help="The node whose certificate shall no longer count.")],
    folder: Folder = Path("keys"),
) -> None:
    """Let a node's certificate no longer count; who is connected stays until the run is over.

    Example: palmette keys revoke phone
    """
    from palmette.runtime.transports.keys.folder import Keys

    Keys(folder).revoke(node)
    print(f"{node}: revoked; copy {folder / 'revoked.crl'} to the other hosts")
