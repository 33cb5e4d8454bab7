"""``palmette reproduce cluster``: Gu et al.'s figures, beside what they claim."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt
from palmette.cli import parsing
from palmette.cli.reproduce.output import Record, create_folder, present, show_claims, show_fit
from palmette.report.bar_chart import bar_chart

if TYPE_CHECKING:
    from palmette.reproduce.cluster.paper import CaseSource


def reproduce_cluster(
    output: opt.Figures = Path("cluster"),
    measured: Annotated[
        bool,
        typer.Option(
            "--measured", help="Measure layers here, pre-train, and train clusters; continues where it stopped."
        ),
    ] = False,
    longest: Annotated[
        str, typer.Option("--longest", help="With --measured: simulate clusters that would train longer than this.")
    ] = "2min",
    fit: opt.FitAgain = False,
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Reproduce Figs. 2 and 5 to 7 of Gu et al.: what bandwidth costs, how often the best cluster is chosen, its gain.

    Example: palmette reproduce cluster -o figures
    """
    from palmette.cli.show.steps_progress import steps_progress
    from palmette.reproduce.cluster import measured as really
    from palmette.reproduce.cluster.catalogue import CatalogueCases
    from palmette.reproduce.cluster.figures import FIT_S, TYPICAL_S, reproduce_from

    longest_s = parsing.parse_duration("longest", longest)
    folder = create_folder(output)
    typical_s = (really.TYPICAL_S if measured else TYPICAL_S) + FIT_S * fit
    with steps_progress(quiet or json_, typical_s) as progress:
        source: CaseSource = CatalogueCases(progress)
        if measured:
            source = really.MeasuredCases(folder / "measured", progress, longest_s)
        made = reproduce_from(source, progress, fit_again=fit)
    present(made, folder / "cluster.json", _draw(made["figures"]["2"]), json_, _show)


def _draw(figure: Record) -> dict[str, str]:
    """Fig. 2 as two pictures: time on a logarithmic axis, as in the paper, and power."""
    names = [f"{mbps:g} Mbit/s" for mbps in figure["mbps"]]
    title = "Gu et al., Fig. 2: a step beside the desktop's server"
    time, power = (dict(zip(names, figure[what], strict=True)) for what in ("time", "power"))
    return {
        "figure-2a.svg": bar_chart(title, figure["groups"], time, "time, relative to 1000 Mbit/s", log2=True),
        "figure-2b.svg": bar_chart(title, figure["groups"], power, "power, relative to 1000 Mbit/s"),
    }


def _show(made: Record) -> None:
    print(made["how"])
    print("clusters: " + ", ".join(f"{many} {how}" for how, many in made["clusters"].items()))
    _show_bandwidth(made["figures"]["2"])
    print("\nFig. 5: the best cluster was chosen, one of the best two")
    for name, row in {"all": made["accuracy"], **made["accuracy_by_model"], **made["accuracy_by_goal"]}.items():
        print(f"{name:10} {row['best']:>8.2%} {row['best_two']:>8.2%}   of {row['cases']}")
    noisy = made["accuracy_noisy"]
    print(f"with noise {noisy['best']:>8.2%} {noisy['best_two']:>8.2%}   of {noisy['cases']} (steps 2%, power 2.2%)")
    print("\nFig. 6: the best against the second best")
    for name, gain in made["gain_by_goal"].items():
        print(f"{name:10} {gain:>8.2%}")
    print("\nIII-C: error of the estimated time, of clusters that were trained; Fig. 7: what the pre-training adds")
    for name, error in made["time_error_by_model"].items():
        trained = made["time_error_measured"].get(name)
        cell = "–" if trained is None else f"{trained:.2%}"
        print(f"{name:10} {error:>8.2%} {cell:>8} {made['overhead_by_model'][name]:>8.2%}")
    for row in made["cases"] if made["clusters"]["measured"] else ():
        _show_case(row)
    show_claims(made["claims"])
    show_fit("Machines fitted to the claims: how many times slower than the catalogue's", made["fit"], _unknowns)


def _unknowns(values: dict[str, float]) -> str:
    names = [name.removesuffix("_w") for name in values if name.endswith("_w")]
    machines = [f"{name} {values[f'{name}_slower']:.3g} times, {values[f'{name}_w']:.3g} W" for name in names]
    return "; ".join([*machines, f"server {values['server']:.3g}"])


def _show_bandwidth(figure: Record) -> None:
    print("\nFig. 2: time and power of a step beside the desktop's server, relative to 1000 Mbit/s")
    for k, group in enumerate(figure["groups"]):
        cells = [
            f"{mbps:>5g} Mbit/s {figure['time'][at][k]:>7.2f} {figure['power'][at][k]:>5.2f}"
            for at, mbps in enumerate(figure["mbps"])
            if at
        ]
        print(f"{group:16} " + "   ".join(cells))


def _show_case(row: Record) -> None:
    """The clusters of a case by their true time, and the choice; those that were really trained have a star."""
    print(f"\n{row['model']} at {row['mbps']:g} Mbit/s: seconds and watts, as estimated, error of the seconds")
    for members, truth in sorted(row["truth"].items(), key=lambda each: float(each[1]["time_s"])):
        mark = "*" if row["how"][members] == "measured" else " "
        cells = [f"{each['time_s']:>9.5g} {each['power_w']:>6.1f}" for each in (truth, row["estimate"][members])]
        print(f"{members:18} {cells[0]}{mark} {cells[1]} {row['time_error'][members]:>7.2%}")
    chosen = [f"{goal} {'+'.join(each['chosen'])} (place {each['place']})" for goal, each in row["goals"].items()]
    print("chosen for " + ", ".join(chosen))
