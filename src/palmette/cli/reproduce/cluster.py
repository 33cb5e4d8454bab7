"""``palmette reproduce cluster``: Gu et al.'s figures, beside what they claim."""

from __future__ import annotations

from pathlib import Path

from palmette.cli.reproduce.frame import Made, present, show_claims, teller
from palmette.reproduce.cluster.figures import Catalogue, Ground, reproduce


def reproduce_cluster(folder: Path, longest_s: float | None, json_: bool, quiet: bool) -> None:
    """Work out all cases, write JSON, print figures and claims; ``longest_s`` is given where clusters are trained."""
    told = teller(quiet)
    ground: Ground = Catalogue(told)
    if longest_s is not None:
        from palmette.reproduce.cluster.measured import Measured

        ground = Measured(folder / "measured", told, longest_s)
    made = reproduce(ground)
    present(made, folder / "cluster.json", {}, json_, _show)


def _show(made: Made) -> None:
    print(made["how"])
    print("clusters: " + ", ".join(f"{many} {how}" for how, many in made["clusters"].items()))
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
        told = "–" if trained is None else f"{trained:.2%}"
        print(f"{name:10} {error:>8.2%} {told:>8} {made['overhead_by_model'][name]:>8.2%}")
    for row in made["cases"] if made["clusters"]["measured"] else ():
        _show_case(row)
    show_claims(made["claims"])


def _show_case(row: Made) -> None:
    """The clusters of a case by their true time, and what was chosen; stars stand with what was trained for real."""
    print(f"\n{row['model']} at {row['mbps']:g} Mbit/s: seconds and watts, as estimated, error of the seconds")
    for members, truth in sorted(row["truth"].items(), key=lambda each: float(each[1]["time_s"])):
        mark = "*" if row["how"][members] == "measured" else " "
        told = [f"{each['time_s']:>9.5g} {each['power_w']:>6.1f}" for each in (truth, row["estimate"][members])]
        print(f"{members:18} {told[0]}{mark} {told[1]} {row['time_error'][members]:>7.2%}")
    chosen = [f"{goal} {'+'.join(each['chosen'])} (place {each['place']})" for goal, each in row["goals"].items()]
    print("chosen for " + ", ".join(chosen))
