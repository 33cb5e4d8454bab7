"""``palmette predict``: predictors of the loss, trained on learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.predict.forecast import Predictor, Setting
    from palmette.predict.learned import LearnedPredictor
    from palmette.spec.curves import Curve

predict = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Predict the loss of later epochs."
    "\n\nExample: palmette predict loss --losses 2.3,1.95,1.7 --samples 1300 --classes 7",
)


Bounds = Annotated[bool, typer.Option("--bounds/--no-bounds", help="Keep robust estimates to the bounds of theory.")]
BoundsFrom = Annotated[
    str | None,
    typer.Option("--bounds-from", help="Curves that tell the bounds' constants, instead of the predictor's own."),
]


@predict.command("train")
def train(
    curves_: Annotated[
        Path | None, typer.Argument(metavar="[CURVES]", help="A file of curves; the shipped one if not given.")
    ] = None,
    output: opt.Output = None,
    floor: Annotated[
        float, typer.Option("--floor", min=0.0, help="Least loss that is possible; 0 for cross-entropy.")
    ] = 0.0,
    seed: opt.Seed = 0,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Train a predictor on curves; evaluate it beside a power law on held-out curves, a quarter of the seeds.

    Example: palmette predict train curves.jsonl -o predictor.safetensors
    """
    from dataclasses import asdict

    from palmette.cli.show.console import print_json
    from palmette.cli.show.forecast import show_constants, show_quality
    from palmette.predict.learned import save

    predictor, quality = _train(curves_, seed, floor, quiet or json_)
    if output is not None:
        save(predictor, output)
    if json_:
        print_json({"origin": predictor.origin, "bounds": asdict(predictor.constants), "quality": quality})
    else:
        origin = predictor.origin
        trained = f"trained on {origin['curves']} curves of {origin['model']} on {origin['data']}"
        show_quality(f"{trained}; evaluated on the others", quality)
        show_constants(predictor.constants)


@predict.command("evaluate")
def evaluate(
    curves_: Annotated[
        Path, typer.Argument(metavar="CURVES", help="A file of curves that the predictor has not seen.")
    ],
    predictor: Annotated[
        str, typer.Option("--predictor", help="shipped, power-law or a file from palmette predict train.")
    ] = "shipped",
    bounds: Bounds = True,
    bounds_from: BoundsFrom = None,
    json_: opt.Json = False,
) -> None:
    """Evaluate a predictor on all curves of a file, such as those of another network, beside a power law.

    Example: palmette predict evaluate curves.jsonl --predictor predictor.safetensors
    """
    from palmette.cli.show.console import print_json
    from palmette.cli.show.forecast import show_quality
    from palmette.predict.registry import load_predictor
    from palmette.spec.curves import load_curves

    found = load_curves(curves_)
    quality = _quality({predictor: load_predictor(predictor, bounds=bounds, bounds_from=bounds_from)}, found.curves)
    if json_:
        print_json({"model": found.model, "data": found.data, "curves": len(found.curves), "quality": quality})
    else:
        show_quality(f"{len(found.curves)} curves of {found.model} on {found.data}", quality)


@predict.command("loss")
def loss(
    losses: Annotated[
        str, typer.Option("--losses", help="Losses so far, such as 2.3,1.9,1.6; the first before training.")
    ],
    samples: Annotated[int, typer.Option("--samples", min=1, help="Samples in the nodes' data.")],
    classes: Annotated[int, typer.Option("--classes", min=1, help="Classes in the nodes' data.")],
    pruning: Annotated[float, typer.Option("--pruning", help="Fraction of the parameters removed so far.")] = 0.0,
    before: Annotated[str | None, typer.Option("--before", help="Losses before the last change of model.")] = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1, max=10_000, help="Epochs to predict.")] = 5,
    to_pruning: Annotated[
        float | None, typer.Option("--to-pruning", help="Predict a change to a model with this fraction removed.")
    ] = None,
    to_samples: Annotated[
        int | None, typer.Option("--to-samples", min=1, help="Predict a change to nodes with so many samples.")
    ] = None,
    to_classes: Annotated[
        int | None, typer.Option("--to-classes", min=1, help="Predict a change to nodes with so many classes.")
    ] = None,
    predictor: Annotated[
        str, typer.Option("--predictor", help="shipped, power-law or a file from palmette predict train.")
    ] = "shipped",
    bound: Annotated[
        float | None, typer.Option("--bound", min=0.0, help="Largest decrease of the loss to predict for one epoch.")
    ] = None,
    bounds: Bounds = True,
    bounds_from: BoundsFrom = None,
    json_: opt.Json = False,
) -> None:
    """Predict the change of the loss in the next epochs, or with a smaller model: mean, and 0.05 and 0.95 quantiles.

    Example: palmette predict loss --losses 2.3,1.95,1.7 --samples 1300 --classes 7 --to-pruning 0.5
    """
    from palmette.cli.show.console import print_json
    from palmette.cli.show.forecast import show_forecast
    from palmette.predict.forecast import History, Setting
    from palmette.predict.registry import load_predictor

    setting = Setting(pruning=_fraction("pruning", pruning), samples=samples, classes=classes)
    earlier = () if before is None else _losses("before", before)
    history = History(setting=setting, losses=_losses("losses", losses), earlier=earlier)
    known = load_predictor(predictor, bound, bounds=bounds, bounds_from=bounds_from)
    forecast = known.predict_epochs(history, epochs)
    to = _changed_setting(setting, to_pruning, to_samples, to_classes)
    change = None if to is None else known.predict_change(history, to)
    if json_:
        outside = {"run": forecast.outside, "change": () if change is None else change.outside}
        rows = {"run": _rows(forecast), "change": None if change is None else _rows(change)[0]}
        print_json(rows | {"outside": {part: list(notes) for part, notes in outside.items() if notes}})
    else:
        show_forecast(history, forecast, change)


def _rows(forecast: Any) -> list[dict[str, float]]:
    names = ("expected", "low", "robust", "total_robust")
    each = zip(*(getattr(forecast, name) for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in each]


def _losses(argument: str, text: str) -> tuple[float, ...]:
    found = parsing.parse_numbers(argument, text, float)
    wrong = [value for value in found if not 0 <= value < float("inf")]
    if wrong or not found:
        raise InputError(ArgumentFault(argument, wrong[0] if wrong else "none", "expected finite numbers of 0 or more"))
    return found


def _fraction(argument: str, value: float) -> float:
    if not 0 <= value < 1:
        raise InputError(ArgumentFault(argument, value, "expected a fraction from 0 to below 1"))
    return value


def _train(path: Path | None, seed: int, floor: float, quiet: bool) -> tuple[LearnedPredictor, dict[str, Any]]:
    """A predictor trained on curves, and how good it and a power law are on held-out curves.

    Raises:
        InputError: the file cannot be used, or has too few curves.
    """
    from palmette.cli.show.progress_bar import progress_bar
    from palmette.predict.learned import train_predictor
    from palmette.predict.shipped_curves import load_shipped_curves
    from palmette.spec.curves import load_curves

    curves = load_shipped_curves() if path is None else load_curves(path)
    with progress_bar("training", quiet) as watch:
        predictor, left_out = train_predictor(curves, seed=seed, floor=floor, on_epoch=watch.tell)
    return predictor, _quality({"learned": predictor}, left_out)


def _quality(predictors: Mapping[str, Predictor], curves: Sequence[Curve]) -> dict[str, Any]:
    """How good predictors and a power law are on curves; None of what these do not have."""
    from dataclasses import asdict

    from palmette.predict.examples import change_examples, run_examples
    from palmette.predict.metrics import evaluate_changes, evaluate_runs
    from palmette.predict.power_law import PowerLawPredictor

    moments, switches = run_examples(curves), change_examples(curves)
    return {
        name: {
            "run": asdict(evaluate_runs(rival, moments)) if moments else None,
            "change": asdict(evaluate_changes(rival, switches)) if switches else None,
        }
        for name, rival in {**predictors, "power-law": PowerLawPredictor()}.items()
    }


def _changed_setting(
    setting: Setting, pruning: float | None, samples: int | None, classes: int | None
) -> Setting | None:
    """The setting after a change, None where no change is asked for.

    Raises:
        InputError: less would be removed than already is.
    """
    from palmette.predict.forecast import Setting

    if pruning is None and samples is None and classes is None:
        return None
    pruning = setting.pruning if pruning is None else pruning
    if not setting.pruning <= pruning < 1:
        expected = f"expected a fraction from {setting.pruning:g}, which is removed already, to below 1"
        raise InputError(ArgumentFault("to_pruning", pruning, expected))
    return Setting(pruning=pruning, samples=samples or setting.samples, classes=classes or setting.classes)
