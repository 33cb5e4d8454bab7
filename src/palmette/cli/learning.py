"""``palmette curves`` and ``palmette predict``: learning curves, and predictors of the loss that learn from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from palmette.cli import options as opt
from palmette.cli.printing import print_json
from palmette.errors import Fault, InputError

N = TypeVar("N", int, float)

curves = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Learning curves of real trainings.\n\nExample: palmette curves collect --data digits -o curves.jsonl",
)
predict = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Predictors of the loss to come."
    "\n\nExample: palmette predict loss --losses 2.3,1.95,1.7 --samples 1300 --classes 7",
)


@curves.callback()
def _curves() -> None:
    pass


@curves.command("collect")
def collect_curves(
    output: Annotated[Path, typer.Option("-o", "--output", help="The file; what it has already is not trained again.")],
    data: Annotated[str, typer.Option("--data", help="digits, cifar10:FOLDER or package.module:callable.")] = "digits",
    model: Annotated[str, typer.Option("--model", help="A network, as for profile.")] = "vgg11small",
    seeds: Annotated[int, typer.Option("--seeds", help="How often to begin anew, with other weights and data.")] = 8,
    k1: Annotated[str, typer.Option("--k1", help="Epochs before the first pruning.")] = "5,15,40",
    k2: Annotated[str, typer.Option("--k2", help="Epochs between the prunings.")] = "5,15",
    f1: Annotated[str, typer.Option("--f1", help="Fractions that the first pruning removes.")] = "0.5,0.75",
    f2: Annotated[str, typer.Option("--f2", help="Fractions of the rest that the second removes.")] = "0.25,0.5",
    last: Annotated[int, typer.Option("--last", help="Epochs after the last pruning.")] = 30,
    batch: opt.Batch = 32,
    lr: Annotated[float, typer.Option("--lr", help="The learning rate of SGD with momentum 0.9.")] = 0.005,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Trainings at a time; one a core.")] = None,
    json_: opt.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train a network through prunings and hand-overs, many times, and write down its losses.

    Every training begins on the gold set of nodes, is pruned and handed over to silver or bronze, and once more to the
    other. Ctrl-C keeps what is there; the same command goes on.

    Example: palmette curves collect --data digits -o curves.jsonl
    """
    from palmette.cli.predicting import collect
    from palmette.measure.curves.grid import CurveGrid
    from palmette.measure.curves.trainer import CurveRecipe

    grid = CurveGrid(
        seeds=seeds,
        k1=_each_once("--k1", k1, int),
        k2=_each_once("--k2", k2, int),
        f1=_each_once("--f1", f1, float),
        f2=_each_once("--f2", f2, float),
        last=last,
    )
    recipe = CurveRecipe(model=model, data=data, batch=batch, lr=lr)
    new, there = collect(output, recipe, grid, jobs, quiet or json_)
    if json_:
        print_json({"file": str(output), "new": new, "curves": there})
    else:
        print(f"{output}: {there} curves, {new} of them new")


@predict.command("train")
def train(
    curves_: Annotated[
        Path | None, typer.Argument(metavar="[CURVES]", help="A file of curves; the one that ships if not given.")
    ] = None,
    output: opt.Output = None,
    seed: opt.Seed = 0,
    json_: opt.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Teach a predictor on curves, and judge it beside a power law on those of a quarter of the seeds, left out.

    Example: palmette predict train curves.jsonl -o predictor.safetensors
    """
    from palmette.cli.predicting import show_quality, taught
    from palmette.predict.learned import save

    predictor, quality = taught(curves_, seed, quiet or json_)
    if output is not None:
        save(predictor, output)
    if json_:
        print_json({"origin": predictor.origin, "quality": quality})
    else:
        show_quality(predictor.origin, quality)


@predict.command("loss")
def loss(
    losses: Annotated[str, typer.Option("--losses", help="The losses so far, such as 2.3,1.9,1.6; the first at 0.")],
    samples: Annotated[int, typer.Option("--samples", min=1, help="Samples of the nodes' data.")],
    classes: Annotated[int, typer.Option("--classes", min=1, help="Classes of the nodes' data.")],
    pruning: Annotated[float, typer.Option("--pruning", help="The fraction of the parameters removed so far.")] = 0.0,
    before: Annotated[str | None, typer.Option("--before", help="Losses before the last change of model.")] = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1, max=10_000, help="How far ahead.")] = 5,
    to_pruning: Annotated[float | None, typer.Option("--to-pruning", help="Foretell a change to this model.")] = None,
    to_samples: Annotated[int | None, typer.Option("--to-samples", min=1, help="Of the nodes changed to.")] = None,
    to_classes: Annotated[int | None, typer.Option("--to-classes", min=1, help="Of the nodes changed to.")] = None,
    predictor: Annotated[
        str, typer.Option("--predictor", help="shipped, power-law or a file of palmette predict train.")
    ] = "shipped",
    bound: Annotated[
        float | None, typer.Option("--bound", min=0.0, help="No epoch is trusted to lower the loss by more than this.")
    ] = None,
    json_: opt.Json = False,
) -> None:
    """How the loss will change in the next epochs, or with a smaller model: expected, and 0.05 and 0.95 quantiles.

    Example: palmette predict loss --losses 2.3,1.95,1.7 --samples 1300 --classes 7 --to-pruning 0.5
    """
    from palmette.cli.predicting import changed_setting, show_forecast
    from palmette.predict.forecast import History, Setting
    from palmette.predict.registry import load_predictor

    setting = Setting(pruning=_fraction("--pruning", pruning), samples=samples, classes=classes)
    earlier = () if before is None else _losses("--before", before)
    history = History(setting=setting, losses=_losses("--losses", losses), earlier=earlier)
    known = load_predictor(predictor, bound)
    told = known.predict_epochs(history, epochs)
    to = changed_setting(setting, to_pruning, to_samples, to_classes)
    change = None if to is None else known.predict_change(history, to)
    if json_:
        print_json({"run": _rows(told), "change": None if change is None else _rows(change)[0]})
    else:
        show_forecast(history, told, change)


def _rows(told: Any) -> list[dict[str, float]]:
    names = ("expected", "low", "robust", "total_robust")
    each = zip(*(getattr(told, name) for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in each]


def _losses(option: str, text: str) -> tuple[float, ...]:
    found = _numbers(option, text, float)
    wrong = [value for value in found if not 0 <= value < float("inf")]
    if wrong or not found:
        raise InputError(Fault(option, wrong[0] if wrong else "none", "expected finite numbers of 0 or more"))
    return found


def _fraction(option: str, value: float) -> float:
    if not 0 <= value < 1:
        raise InputError(Fault(option, value, "expected a fraction from 0 to below 1"))
    return value


def _each_once(option: str, text: str, kind: type[N]) -> tuple[N, ...]:
    return tuple(dict.fromkeys(_numbers(option, text, kind)))


def _numbers(option: str, text: str, kind: type[N]) -> tuple[N, ...]:
    """Numbers with commas between them, in the order given."""
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip())
    except ValueError:
        numbers = "whole numbers" if kind is int else "numbers"
        raise InputError(Fault(option, text, f"expected {numbers} with commas between them")) from None
