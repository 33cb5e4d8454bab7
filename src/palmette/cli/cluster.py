"""``palmette cluster``: this machine as a host of a Ray cluster, for ``--engine ray``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

cluster = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Join a Ray cluster with this machine, for --engine ray."
    "\n\nExample: palmette cluster join 10.0.0.1:6379 --node phone",
)


@cluster.callback()
def _cluster() -> None:
    pass


@cluster.command()
def join(
    address: Annotated[
        str, typer.Argument(help="Address of the cluster's head (ray start --head), such as 10.0.0.1:6379.")
    ],
    node: Annotated[str, typer.Option("--node", help="The node that this machine is.", show_default=False)],
    token: Annotated[
        Path | None, typer.Option("--token", help="File with the cluster's token, if it is not in the environment.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", help="Folder of keys (palmette keys) with which Ray encrypts its own messages."),
    ] = None,
) -> None:
    """Start Ray on this machine as the host of a node; ray stop ends it.

    Example: palmette cluster join 10.0.0.1:6379 --node phone
    """
    from palmette.runtime.engines.ray.join import join as join_cluster

    join_cluster(address, node, token, keys)
    print(f"this machine is node {node} of the Ray cluster at {address}")
