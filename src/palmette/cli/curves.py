"""``palmette curves``: learning curves of real trainings."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.errors import RunError

if TYPE_CHECKING:
    from palmette.measure.curves.grid import CurveGrid
    from palmette.measure.curves.trainer import CurveRecipe

curves = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Learning curves of real trainings.\n\nExample: palmette curves collect --data digits -o curves.jsonl",
)


@curves.callback()
def _curves() -> None:
    pass


@curves.command("collect")
def collect_curves(
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="The file of curves; curves that it already has are not collected again."),
    ],
    data: Annotated[str, typer.Option("--data", help=f"digits, {opt.DATA_KINDS}.")] = "digits",
    model: Annotated[
        str, typer.Option("--model", help="A network of the zoo, or package.module:callable.")
    ] = "vgg11small",
    seeds: Annotated[
        int, typer.Option("--seeds", help="Number of seeds, each with other initial weights and data.")
    ] = 8,
    k1: Annotated[str, typer.Option("--k1", help="Epochs before the first pruning.")] = "5,15,40",
    k2: Annotated[str, typer.Option("--k2", help="Epochs between the prunings.")] = "5,15",
    f1: Annotated[
        str, typer.Option("--f1", help="Fractions of parameters that the first pruning removes.")
    ] = "0.5,0.75",
    f2: Annotated[
        str, typer.Option("--f2", help="Fractions of the rest that the second pruning removes.")
    ] = "0.25,0.5",
    last: Annotated[int, typer.Option("--last", help="Epochs after the last pruning.")] = 30,
    input_shape: opt.InputShape = None,
    batch: opt.Batch = 32,
    lr: Annotated[float, typer.Option("--lr", help="Learning rate of SGD with momentum 0.9.")] = 0.005,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Trainings in parallel; one per core if not given.")
    ] = None,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Train a network many times, with prunings and changes of nodes, and record its losses.

    Every training begins on the gold set of nodes, is pruned and moves to silver or bronze, then once more to the
    other. After Ctrl-C, the same command continues where it stopped.

    Example: palmette curves collect --data digits -o curves.jsonl
    """
    from palmette.cli.show.console import print_json
    from palmette.measure.curves.grid import CurveGrid
    from palmette.measure.curves.trainer import CurveRecipe

    grid = CurveGrid(
        seeds=seeds,
        k1=_distinct("k1", k1, int),
        k2=_distinct("k2", k2, int),
        f1=_distinct("f1", f1, float),
        f2=_distinct("f2", f2, float),
        last=last,
    )
    recipe = CurveRecipe(model=model, data=data, batch=batch, lr=lr, input_shape=parsing.parse_shape(input_shape))
    new, total = _collect(output, recipe, grid, jobs, quiet or json_)
    if json_:
        print_json({"file": str(output), "new": new, "curves": total})
    else:
        print(f"{output}: {total} curves, {new} of them new")


def _collect(path: Path, recipe: CurveRecipe, grid: CurveGrid, jobs: int | None, quiet: bool) -> tuple[int, int]:
    """Collect curves; how many are new, and how many there are.

    Raises:
        RunError: it was stopped, or a training failed.
    """
    from palmette.cli.show.progress_bar import progress_bar
    from palmette.measure.curves.collect import collect

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with progress_bar("curves", quiet) as watch:
            expect = None if watch.bar.disable else watch.expect
            return collect(path, recipe, grid, jobs=jobs or _cores(), on_progress=watch.tell, on_expected=expect)
    except KeyboardInterrupt:
        raise RunError(f"stopped; {path} has the finished curves; the same command continues") from None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _distinct(argument: str, text: str, kind: type[parsing.N]) -> tuple[parsing.N, ...]:
    return tuple(dict.fromkeys(parsing.parse_numbers(argument, text, kind)))
