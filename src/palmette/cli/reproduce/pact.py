"""``palmette reproduce pact``: its table and figures, beside what it claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from palmette.cli import options as opt
from palmette.cli.reproduce.output import Record, create_folder, present, show_claims, show_row
from palmette.report.line_chart import line_chart


def reproduce_pact(
    output: opt.Figures = Path("pact"),
    measured: Annotated[
        bool, typer.Option("--measured", help="Train for real on this machine, and add Fig. 2: accuracy over time.")
    ] = False,
    data: Annotated[str, typer.Option("--data", help=f"With --measured: digits, {opt.DATA_KINDS}.")] = "digits",
    quick: Annotated[bool, typer.Option("--quick", help="With --measured: a few epochs of LeNet-5.")] = False,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Reproduce PACT's Table I and Figs. 2, 4, 6 to 9: how well the loss is predicted, and what schedules cost.

    Example: palmette reproduce pact -o figures
    """
    from palmette.cli.show.steps_progress import steps_progress
    from palmette.reproduce.pact import accuracy
    from palmette.reproduce.pact.figures import TYPICAL_S, reproduce

    folder = create_folder(output)
    training_s = (accuracy.QUICK_S if quick else accuracy.TYPICAL_S) if measured else 0.0
    with steps_progress(quiet or json_, TYPICAL_S + training_s) as progress:
        made = reproduce(progress)
        if measured:
            figure, claims = accuracy.figure_2(data, progress, folder / "measured", quick=quick)
            made |= {"figures": {"2": figure} | made["figures"], "claims": [*claims, *made["claims"]]}
    lines = {number: figure for number, figure in made["figures"].items() if "series" in figure}
    pictures = {f"figure-{number}.svg": draw(number, figure) for number, figure in lines.items()}
    present(made, folder / "pact.json", pictures, json_, _show)


def draw(number: str, figure: dict[str, Any]) -> str:
    """A figure as SVG."""
    shown = {name: values for name, values in figure["series"].items() if None not in values}
    title = f"PACT, Fig. {number}: {figure['title']}"
    return line_chart(title, figure["x"], shown, figure["x_label"], figure["y_label"])


def _show(made: Record) -> None:
    _show_predictions(made["predictions"])
    for number, figure in made["figures"].items():
        _show_figure(number, figure)
    show_claims(made["claims"])


def _show_predictions(made: dict[str, Any]) -> None:
    print(f"Table I: {made['left_out_curves']} held-out curves of {made['model']} on {made['data']}")
    for which in ("run", "change"):
        for name, row in made["table_1"].items():
            cells = "   ".join(
                f"{measure.upper()} {row[which][measure]['mean']:.3g} ± {row[which][measure]['std']:.2g}"
                for measure in ("mae", "mil", "icp")
            )
            print(f"λ_{which:8} {name:10} {cells}")


def _show_figure(number: str, figure: dict[str, Any]) -> None:
    print(f"\nFig. {number}: {figure['title']}")
    if "targets" in figure:
        for target, spent in figure["targets"].items():
            for name, by_model in spent.items():
                spent_j = ", ".join(f"{model} {joules:.3g}" for model, joules in (by_model or {}).items())
                print(f"target {target:5} {name:14} {spent_j or 'no schedule'}")
        return
    some = slice(None, None, max(1, len(figure["x"]) // 10))
    show_row(figure["x_label"], 20, figure["x"][some])
    for name, values in figure["series"].items():
        show_row(name, 20, values[some])
