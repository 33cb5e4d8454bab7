"""``palmette reproduce hiertrain``: its figures and table, beside what it claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palmette.cli.reproduce.frame import Made, present, show_claims, teller
from palmette.report.line_chart import line_chart
from palmette.reproduce.hiertrain.figures import BATCH, Catalogue, Ground, reproduce


def reproduce_hiertrain(folder: Path, batch: int | None, measured: bool, json_: bool, quiet: bool) -> None:
    """Work out all figures, write JSON and pictures, print the claims."""
    told = teller(quiet)
    ground: Ground = Catalogue(batch or BATCH)
    if measured:
        from palmette.reproduce.hiertrain.measured import BATCH as FEWER
        from palmette.reproduce.hiertrain.measured import Measured

        ground = Measured(batch or FEWER, told=told)
    made = reproduce(ground, told)
    pictures = {f"figure-{number}.svg": _drawn(number, figure) for number, figure in made["figures"].items()}
    present(made, folder / "hiertrain.json", pictures, json_, _show)


def _drawn(number: str, figure: dict[str, Any]) -> str:
    def each(what: str) -> dict[str, list[Any]]:
        return {name: [point[what] for point in points] for name, points in figure["series"].items()}

    run = {name: [how == "measured" for how in points] for name, points in each("how").items()}
    title = f"HierTrain, Fig. {number}: {figure['title']}"
    return line_chart(
        title, figure["x"], each("iteration_s"), figure["x_label"], "seconds of an iteration", measured=run
    )


def _show(made: Made) -> None:
    for number, figure in made["figures"].items():
        _show_figure(number, figure)
    print("\nTable II: seconds of a planning")
    for name, row in made["table_2"].items():
        told = f"{row['layers']:>3} layers   Algorithm 1 {row['algorithm_1_s']:.3g}   exact {row['exact_s']:.3g}"
        print(f"{name:10} {told}")
    show_claims(made["claims"])
    _show_causes(made["causes"])


def _show_figure(number: str, figure: dict[str, Any]) -> None:
    """A row a strategy; points that were run stand with a star, and beside them what the clock had foretold."""
    print(f"\nFig. {number}: {figure['title']}, seconds over {figure['x_label']}")
    wide = max(map(len, figure["series"]))
    print(" " * wide + "".join(f"{value:>9g} " for value in figure["x"]))
    run = []
    for name, points in figure["series"].items():
        marks = ["*" if point["how"] == "measured" else " " for point in points]
        cells = [f"{point['iteration_s']:>9.3g}{mark}" for point, mark in zip(points, marks, strict=True)]
        print(f"{name:{wide}}" + "".join(cells))
        run += [
            f"{name} at {mbps:g}: {point['iteration_s']:.4g} (clock {point['clock_s']:.4g})"
            for mbps, point in zip(figure["x"], points, strict=True)
            if point["how"] == "measured"
        ]
    if run:
        print("* measured on the testbed, the others simulated; " + "; ".join(run))


def _show_causes(causes: list[dict[str, Any]]) -> None:
    print("\nWhat decides: HierTrain's largest speed-ups over all-edge and all-cloud, and where JALAD is ahead,")
    print("with one assumption changed at a time (no figure uses these)")
    for row in causes:
        print(f"- {row['changed']}")
        for network, each in row.items():
            if network != "changed":
                mbps = ", ".join(f"{value:g}" for value in each["jalad_ahead_at_mbps"]) or "no"
                told = f"{each['over_all_edge']:.2f} and {each['over_all_cloud']:.2f} times; JALAD at {mbps} Mbit/s"
                print(f"  {network:8} {told}")
