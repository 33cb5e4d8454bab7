"""The commands put together. Each imports what it needs when it is called, so that ``--help`` is quick."""

from __future__ import annotations

from typing import Annotated

import typer

import palmette
from palmette.cli.check import check
from palmette.cli.cluster import cluster
from palmette.cli.compare import compare
from palmette.cli.curves import curves
from palmette.cli.doctor import doctor
from palmette.cli.estimate import estimate
from palmette.cli.fetch import fetch
from palmette.cli.hardware import hardware
from palmette.cli.hub import hub
from palmette.cli.init import init
from palmette.cli.keys import keys
from palmette.cli.learn import learn
from palmette.cli.logs import logs
from palmette.cli.ls import ls
from palmette.cli.pilot import pilot
from palmette.cli.plan import plan
from palmette.cli.power import power
from palmette.cli.predict import predict
from palmette.cli.pretrain import pretrain
from palmette.cli.profile import profile
from palmette.cli.program import program
from palmette.cli.prune import prune
from palmette.cli.report import report
from palmette.cli.reproduce.app import reproduce
from palmette.cli.run import run
from palmette.cli.stop import stop
from palmette.cli.strategies import strategies
from palmette.cli.up import up
from palmette.cli.watch import watch
from palmette.cli.what_if import what_if
from palmette.cli.worker import worker

COMMANDS = (
    init,
    up,
    profile,
    pretrain,
    estimate,
    program,
    run,
    hub,
    worker,
    ls,
    logs,
    stop,
    fetch,
    prune,
    compare,
    what_if,
    report,
    watch,
    strategies,
    hardware,
    pilot,
    learn,
    check,
    doctor,
)
GROUPS = {
    "plan": plan,
    "reproduce": reproduce,
    "keys": keys,
    "curves": curves,
    "predict": predict,
    "cluster": cluster,
    "power": power,
}

app = typer.Typer(
    name="palmette",
    help="Train deep networks across phones, edge servers and the cloud, in the least time, energy, money or carbon.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _first_paragraph(text: str | None) -> str:
    """A command's line in the list of commands, whole: what is not given is cut off in the middle."""
    return " ".join((text or "").partition("\n\n")[0].split()).rstrip(".")


for _command in COMMANDS:
    app.command(short_help=_first_paragraph(_command.__doc__))(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name, short_help=_first_paragraph(_group.info.help))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(palmette.__version__)
        raise typer.Exit


@app.callback()
def _palmette(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
