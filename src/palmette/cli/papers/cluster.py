"""``palmette reproduce cluster``: Gu et al.'s figures, beside what they claim."""

from __future__ import annotations

from pathlib import Path

from palmette.cli.papers.frame import Made, present, show_claims, teller
from palmette.reproduce.cluster import reproduce


def reproduce_cluster(folder: Path, measured: bool, json_: bool, quiet: bool) -> None:
    """Work out all cases, write JSON, print figures and claims."""
    told = teller(quiet)
    made = reproduce(told)
    if measured:
        from palmette.reproduce.cluster_measured import measured_cases

        made |= {"measured": measured_cases(told)}
    present(made, folder / "cluster.json", {}, json_, _show)


def _show(made: Made) -> None:
    print(made["how"])
    print("\nFig. 5: the best cluster was chosen, one of the best two")
    for name, row in {"all": made["accuracy"], **made["accuracy_by_model"], **made["accuracy_by_goal"]}.items():
        print(f"{name:10} {row['best']:>8.2%} {row['best_two']:>8.2%}   of {row['cases']}")
    noisy = made["accuracy_noisy"]
    print(f"with noise {noisy['best']:>8.2%} {noisy['best_two']:>8.2%}   of {noisy['cases']} (steps 2%, power 2.2%)")
    print("\nFig. 6: the best against the second best")
    for name, gain in made["gain_by_goal"].items():
        print(f"{name:10} {gain:>8.2%}")
    print("\nIII-C: error of the estimated time; Fig. 7: what the pre-training adds")
    for name, error in made["time_error_by_model"].items():
        print(f"{name:10} {error:>8.2%} {made['overhead_by_model'][name]:>8.2%}")
    for row in made.get("measured", {}).get("cases", ()):
        print(f"\n{row['model']} at {row['mbps']:g} Mbit/s, {row['how']}")
        for goal, each in row["goals"].items():
            print(
                f"{goal:10} chosen {', '.join(each['chosen'])}; place {each['place']}, best {', '.join(each['best'])}"
            )
        for members, error in row["time_error"].items():
            print(f"{members:20} estimated {row['estimate'][members]['time_s']:.4g} s, off by {error:.2%}")
    show_claims(made["claims"])
