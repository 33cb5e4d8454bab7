"""``palmette reproduce righttrain``: its figure, beside what it claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palmette.cli.reproduce.frame import Made, present, show_claims, show_row, teller
from palmette.report.line_chart import line_chart
from palmette.reproduce.righttrain.figures import reproduce


def reproduce_righttrain(folder: Path, json_: bool, quiet: bool) -> None:
    """Work out Fig. 3, write JSON and pictures, print figures and claims."""
    made = reproduce(teller(quiet))
    pictures = {
        f"figure-{number.replace(' ', '-')}.svg": _drawn(number, figure) for number, figure in made["figures"].items()
    }
    present(made, folder / "righttrain.json", pictures, json_, _show)


def _drawn(number: str, figure: dict[str, Any]) -> str:
    shown = {name: values for name, values in figure["series"].items() if None not in values}
    return line_chart(f"RightTrain, Fig. {number}", figure["x"], shown, figure["x_label"], figure["y_label"])


def _show(made: Made) -> None:
    for number, figure in made["figures"].items():
        print(f"\nFig. {number}: {figure['y_label']} over {figure['x_label']}")
        show_row("", 18, figure["x"])
        for name, values in figure["series"].items():
            show_row(name, 18, values)
    show_claims(made["claims"])
