"""``palmette reproduce``: a command for each paper, and one for all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palmette.cli import options as opt

reproduce = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="A paper's figures, beside what it claims.\n\nExample: palmette reproduce all -o reproduction",
)


def _ready(folder: Path) -> Path:
    """The folder for figures, made before minutes of work that it is to hold."""
    from palmette.spec.files import make_folder

    make_folder(folder)
    return folder


@reproduce.command("all")
def reproduce_all(
    output: opt.Figures = Path("reproduction"),
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Every claim of the four papers beside ours: reproduced, better, or not reached.

    Example: palmette reproduce all -o reproduction
    """
    from palmette.cli.reproduce.everything import reproduce_all as carry_out

    carry_out(_ready(output), json_, quiet)


@reproduce.command("hiertrain")
def reproduce_hiertrain(
    output: opt.Figures = Path("hiertrain"),
    measured: Annotated[
        bool, typer.Option("--measured", help="Measure layers here, run a dozen points, simulate the others.")
    ] = False,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Samples of one iteration: 128, or 8 with --measured.")
    ] = None,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """HierTrain's Figs. 7 to 11 and Table II, on its machines as the catalogue knows them.

    Example: palmette reproduce hiertrain -o figures
    """
    from palmette.cli.reproduce.hiertrain import reproduce_hiertrain as carry_out

    carry_out(_ready(output), batch, measured, json_, quiet)


@reproduce.command("righttrain")
def reproduce_righttrain(
    output: opt.Figures = Path("righttrain"),
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """RightTrain's Fig. 3: energy, learning time, epochs and data against the deadline.

    Example: palmette reproduce righttrain -o figures
    """
    from palmette.cli.reproduce.righttrain import reproduce_righttrain as carry_out

    carry_out(_ready(output), json_, quiet)


@reproduce.command("cluster")
def reproduce_cluster(
    output: opt.Figures = Path("cluster"),
    measured: Annotated[
        bool,
        typer.Option("--measured", help="Measure layers here, pre-train, train what can be; goes on where it stopped."),
    ] = False,
    longest: Annotated[
        str, typer.Option("--longest", help="With --measured: a cluster that would train longer is simulated.")
    ] = "2min",
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Gu et al.'s Figs. 5 to 7: how often the best cluster is chosen, what it gains, what asking costs.

    Example: palmette reproduce cluster -o figures
    """
    from palmette.cli.reproduce.cluster import reproduce_cluster as carry_out

    longest_s = opt.seconds("--longest", longest)
    assert longest_s is not None
    carry_out(_ready(output), longest_s if measured else None, json_, quiet)


@reproduce.command("pact")
def reproduce_pact(
    output: opt.Figures = Path("pact"),
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """PACT's Table I and Figs. 4, 6 to 9: how well the loss is foretold, and what schedules cost.

    Example: palmette reproduce pact -o figures
    """
    from palmette.cli.reproduce.pact import reproduce_pact as carry_out

    carry_out(_ready(output), json_, quiet)
