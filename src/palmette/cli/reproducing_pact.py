"""``palmette reproduce pact``: its table and figures, beside what it claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palmette.cli.reproducing import on_stderr, show_claims
from palmette.report.lines import line_chart
from palmette.reproduce.pact import reproduce
from palmette.spec.files import write_text


def reproduce_pact(folder: Path, json_: bool, quiet: bool) -> None:
    """Work out table and figures, write JSON and pictures, print the claims."""
    made = reproduce((lambda _: None) if quiet else on_stderr)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    write_text(folder / "pact.json", text)
    lines = {number: figure for number, figure in made["figures"].items() if "series" in figure}
    for number, figure in lines.items():
        shown = {name: values for name, values in figure["series"].items() if None not in values}
        title = f"PACT, Fig. {number}: {figure['title']}"
        drawn = line_chart(title, figure["x"], shown, figure["x_label"], figure["y_label"])
        write_text(folder / f"figure-{number}.svg", drawn)
    if json_:
        print(text, end="")
        return
    _show_predictions(made["predictions"])
    for number, figure in made["figures"].items():
        _show_figure(number, figure)
    show_claims(made["claims"])
    print(f"written to {folder}")


def _show_predictions(made: dict[str, Any]) -> None:
    print(f"Table I: {made['left_out_curves']} curves of {made['model']} on {made['data']} that were not taught")
    for which in ("run", "change"):
        for name, row in made["table_1"].items():
            told = "   ".join(
                f"{measure.upper()} {row[which][measure]['mean']:.3g} ± {row[which][measure]['std']:.2g}"
                for measure in ("mae", "mil", "icp")
            )
            print(f"λ_{which:8} {name:10} {told}")


def _show_figure(number: str, figure: dict[str, Any]) -> None:
    print(f"\nFig. {number}: {figure['title']}")
    if "targets" in figure:
        for target, spent in figure["targets"].items():
            for name, by_model in spent.items():
                told = ", ".join(f"{model} {joules:.3g}" for model, joules in (by_model or {}).items())
                print(f"target {target:5} {name:14} {told or 'no schedule'}")
        return
    some = slice(None, None, max(1, len(figure["x"]) // 10))
    print(f"{figure['x_label']:20}" + "".join(f"{value:>8g}" for value in figure["x"][some]))
    for name, values in figure["series"].items():
        print(f"{name:20}" + "".join("       –" if value is None else f"{value:>8.3g}" for value in values[some]))
