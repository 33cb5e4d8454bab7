"""``palmette reproduce``: one command per paper, and one for all."""

from __future__ import annotations

from collections.abc import Callable

import typer

from palmette.cli.reproduce.all import reproduce_all
from palmette.cli.reproduce.cluster import reproduce_cluster
from palmette.cli.reproduce.hiertrain import reproduce_hiertrain
from palmette.cli.reproduce.pact import reproduce_pact
from palmette.cli.reproduce.righttrain import reproduce_righttrain

COMMANDS: dict[str, Callable[..., None]] = {
    "all": reproduce_all,
    "hiertrain": reproduce_hiertrain,
    "righttrain": reproduce_righttrain,
    "cluster": reproduce_cluster,
    "pact": reproduce_pact,
}

reproduce = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Reproduce the papers' figures, beside what they claim.\n\nExample: palmette reproduce all -o reproduction",
)
for _name, _command in COMMANDS.items():
    reproduce.command(_name)(_command)
