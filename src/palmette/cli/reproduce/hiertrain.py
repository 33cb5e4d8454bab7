"""``palmette reproduce hiertrain``: its figures and table, beside what it claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palmette.cli import options as opt
from palmette.cli.reproduce.output import Record, create_folder, present, show_claims, show_fit
from palmette.report.line_chart import line_chart

if TYPE_CHECKING:
    from palmette.reproduce.hiertrain.figures import TimingSource


def reproduce_hiertrain(
    output: opt.Figures = Path("hiertrain"),
    measured: Annotated[
        bool,
        typer.Option("--measured", help="Measure layers here, run fourteen points, simulate the others; adds Fig. 6."),
    ] = False,
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, help="Samples per iteration; 128, or 8 with --measured, if not given."),
    ] = None,
    fit: opt.FitAgain = False,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Reproduce HierTrain's Figs. 6 to 11 and Table II, with layer times from the catalogue of hardware.

    Example: palmette reproduce hiertrain -o figures
    """
    from palmette.cli.show.steps_progress import steps_progress
    from palmette.reproduce.hiertrain import measured as really
    from palmette.reproduce.hiertrain.figures import BATCH, FIT_S, TYPICAL_S, CatalogueTimings, reproduce_from

    folder = create_folder(output)
    typical_s = TYPICAL_S + really.ALL_POINTS_S * measured + FIT_S * fit
    with steps_progress(quiet or json_, typical_s) as progress:
        timings: TimingSource = CatalogueTimings(batch or BATCH)
        if measured:
            timings = really.MeasuredTimings(batch or really.BATCH, progress=progress)
        made = reproduce_from(timings, progress, fit_again=fit)
    pictures = {f"figure-{number}.svg": _draw(number, figure) for number, figure in made["figures"].items()}
    present(made, folder / "hiertrain.json", pictures, json_, _show)


def _draw(number: str, figure: dict[str, Any]) -> str:

    def each(what: str) -> dict[str, list[Any]]:
        return {name: [point[what] for point in points] for name, points in figure["series"].items()}

    run = {name: [how == "measured" for how in points] for name, points in each("how").items()}
    title = f"HierTrain, Fig. {number}: {figure['title']}"
    return line_chart(title, figure["x"], each("iteration_s"), figure["x_label"], "seconds per iteration", measured=run)


def _show(made: Record) -> None:
    for number, figure in made["figures"].items():
        _show_figure(number, figure)
    print("\nTable II: seconds to plan")
    for name, row in made["table_2"].items():
        cells = f"{row['layers']:>3} layers   Algorithm 1 {row['algorithm_1_s']:.3g}   exact {row['exact_s']:.3g}"
        print(f"{name:10} {cells}")
    show_claims(made["claims"])
    for network, fit in made["fit"].items():
        show_fit(f"Machines fitted to the claims about {network}, seconds of a sample", fit, _sample_s)
    _show_sensitivity(made["causes"])


def _sample_s(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {each:.3g}" for name, each in values.items())


def _show_figure(number: str, figure: dict[str, Any]) -> None:
    """A row per strategy; points that were run have a star, and below them the clock's prediction."""
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
        print("* measured on the testbed; " + "; ".join(run))


def _show_sensitivity(causes: list[dict[str, Any]]) -> None:
    print("\nSensitivity: HierTrain's largest speed-ups over all-edge and all-cloud, and where JALAD is faster,")
    print("with one assumption changed at a time (no figure uses these)")
    for row in causes:
        print(f"- {row['changed']}")
        for network, each in row.items():
            if network != "changed":
                mbps = ", ".join(f"{value:g}" for value in each["jalad_ahead_at_mbps"]) or "no"
                cells = f"{each['over_all_edge']:.2f} and {each['over_all_cloud']:.2f} times; JALAD at {mbps} Mbit/s"
                print(f"  {network:8} {cells}")
