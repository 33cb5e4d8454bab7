"""``palmette reproduce``: a paper's figures, beside what it claims."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer


def reproduce_hiertrain(folder: Path, batch: int, quiet: bool) -> None:
    """Work out all figures, write JSON and pictures, print the claims."""
    from palmette.report.lines import line_chart
    from palmette.reproduce.hiertrain import reproduce
    from palmette.spec.files import write_text

    made = reproduce(batch, (lambda _: None) if quiet else _on_stderr)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "hiertrain.json", json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    for number, figure in made["figures"].items():
        series = {name: [point["iteration_s"] for point in points] for name, points in figure["series"].items()}
        title = f"HierTrain, Fig. {number}: {figure['title']}"
        drawn = line_chart(title, figure["x"], series, figure["x_label"], "seconds of an iteration")
        write_text(folder / f"figure-{number}.svg", drawn)
    _show(made)
    typer.echo(f"written to {folder}")


def _on_stderr(what: str) -> None:
    print(what, file=sys.stderr)


def _show(made: dict[str, Any]) -> None:
    for number, figure in made["figures"].items():
        print(f"\nFig. {number}: {figure['title']}, seconds over {figure['x_label']}")
        wide = max(map(len, figure["series"]))
        print(" " * wide + "".join(f"{value:>9g}" for value in figure["x"]))
        for name, points in figure["series"].items():
            print(f"{name:{wide}}" + "".join(f"{point['iteration_s']:>9.3g}" for point in points))
    print("\nTable II: seconds of a planning")
    for name, row in made["table_2"].items():
        told = f"{row['layers']:>3} layers   Algorithm 1 {row['algorithm_1_s']:.3g}   exact {row['exact_s']:.3g}"
        print(f"{name:10} {told}")
    print("\nThe paper's claims")
    for row in made["claims"]:
        where = row["figure"] if row["figure"].startswith("Table") else f"Fig. {row['figure']}"
        verdict = "as in the paper" if row["agrees"] else "differs"
        print(f"- {where}: {row['claim']}: paper {row['paper']}, ours {row['ours']}: {verdict}")
        if not row["agrees"]:
            print(f"  {row['why']}")
