"""``palmette keys``: a private certificate authority and a certificate per node, for ``--transport tls``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.errors import ArgumentFault, InputError

keys = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="A private certificate authority and a certificate per node, for runs over --transport tls."
    "\n\nExample: palmette keys init --keys keys",
)

Folder = Annotated[Path, typer.Option("--keys", help="Folder of the keys.")]


@keys.command()
def init(
    folder: Folder = Path("keys"),
    days: Annotated[int, typer.Option("--days", min=1, help="Days that the authority is valid.")] = 5 * 365,
) -> None:
    """Create a private certificate authority.

    Example: palmette keys init --keys keys
    """
    from palmette.runtime.transports.keys.folder import Keys

    made = Keys(folder).init(days)
    print(f"{folder / 'authority.crt'}: valid until {made.not_valid_after_utc.date()}")
    print(f"{folder / 'authority.key'}: signs certificates; keep it off the nodes")


@keys.command()
def issue(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes, as in the cluster file.")],
    folder: Folder = Path("keys"),
    days: Annotated[int, typer.Option("--days", min=1, help="Days that the certificates are valid.")] = 90,
    address: Annotated[
        list[str] | None,
        typer.Option("--address", help="Host name or IP address to add to the certificate; may be repeated."),
    ] = None,
) -> None:
    """Issue a key and a certificate for each node; valid ones are not replaced.

    Example: palmette keys issue phone server cloud
    """
    from palmette.runtime.transports.keys.folder import Keys

    if address and len(nodes) > 1:
        raise InputError(ArgumentFault("address", ", ".join(address), f"expected one node, not {len(nodes)}"))
    known = Keys(folder)
    for node in nodes:
        known.refuse_issued(node)
    for node in dict.fromkeys(nodes):
        made = known.issue(node, days, address or ())
        print(f"{node}: valid until {made.not_valid_after_utc.date()}")


@keys.command()
def revoke(
    node: Annotated[str, typer.Argument(help="The node whose certificate to revoke.")],
    folder: Folder = Path("keys"),
) -> None:
    """Revoke a node's certificate; a node that is connected stays so until the run ends.

    Example: palmette keys revoke phone
    """
    from palmette.runtime.transports.keys.folder import Keys

    Keys(folder).revoke(node)
    print(f"{node}: revoked; copy {folder / 'revoked.crl'} to the other hosts")
