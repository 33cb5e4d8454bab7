"""``palmette reproduce righttrain``: its figure, beside what it claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palmette.cli import options as opt
from palmette.cli.reproduce.output import Record, create_folder, present, show_claims, show_row
from palmette.report.line_chart import line_chart


def reproduce_righttrain(
    output: opt.Figures = Path("righttrain"),
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Reproduce RightTrain's Fig. 3: energy, learning time, epochs and data against the deadline.

    Example: palmette reproduce righttrain -o figures
    """
    from palmette.cli.show.steps_progress import steps_progress
    from palmette.reproduce.righttrain.figures import TYPICAL_S, reproduce

    folder = create_folder(output)
    with steps_progress(quiet or json_, TYPICAL_S) as progress:
        made = reproduce(progress)
    pictures = {
        f"figure-{number.replace(' ', '-')}.svg": _draw(number, figure) for number, figure in made["figures"].items()
    }
    present(made, folder / "righttrain.json", pictures, json_, _show)


def _draw(number: str, figure: dict[str, Any]) -> str:

    shown = {name: values for name, values in figure["series"].items() if None not in values}
    return line_chart(f"RightTrain, Fig. {number}", figure["x"], shown, figure["x_label"], figure["y_label"])


def _show(made: Record) -> None:
    for number, figure in made["figures"].items():
        print(f"\nFig. {number}: {figure['y_label']} over {figure['x_label']}")
        show_row("", 18, figure["x"])
        for name, values in figure["series"].items():
            show_row(name, 18, values)
    show_claims(made["claims"])
