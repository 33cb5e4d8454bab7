"""``palmette reproduce``: a paper's figures, beside what it claims."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer


def reproduce_hiertrain(folder: Path, batch: int | None, measured: bool, quiet: bool) -> None:
    """Work out all figures, write JSON and pictures, print the claims."""
    from palmette.reproduce.hiertrain import BATCH, Catalogue, Ground, reproduce
    from palmette.spec.files import write_text

    told = (lambda _: None) if quiet else on_stderr
    ground: Ground = Catalogue(batch or BATCH)
    if measured:
        from palmette.reproduce.hiertrain_measured import BATCH as FEWER
        from palmette.reproduce.hiertrain_measured import Measured

        ground = Measured(batch or FEWER, told=told)
    made = reproduce(ground, told)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "hiertrain.json", json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    for number, figure in made["figures"].items():
        write_text(folder / f"figure-{number}.svg", _drawn(number, figure))
    _show(made)
    typer.echo(f"written to {folder}")


def reproduce_cluster(folder: Path, measured: bool, json_: bool, quiet: bool) -> None:
    """Work out all cases, write JSON, print figures and claims."""
    from palmette.reproduce.cluster import reproduce
    from palmette.spec.files import write_text

    told = (lambda _: None) if quiet else on_stderr
    made = reproduce(told)
    if measured:
        from palmette.reproduce.cluster_measured import measured_cases

        made |= {"measured": measured_cases(told)}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    write_text(folder / "cluster.json", text)
    if json_:
        print(text, end="")
        return
    _show_choices(made)
    show_claims(made["claims"])
    typer.echo(f"written to {folder}")


def _show_choices(made: dict[str, Any]) -> None:
    print(f"{made['how']}")
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


def reproduce_righttrain(folder: Path, json_: bool, quiet: bool) -> None:
    """Work out Fig. 3, write JSON and pictures, print figures and claims."""
    from palmette.report.lines import line_chart
    from palmette.reproduce.righttrain import reproduce
    from palmette.spec.files import write_text

    made = reproduce((lambda _: None) if quiet else on_stderr)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    write_text(folder / "righttrain.json", text)
    for number, figure in made["figures"].items():
        shown = {name: values for name, values in figure["series"].items() if None not in values}
        title = f"RightTrain, Fig. {number}"
        drawn = line_chart(title, figure["x"], shown, figure["x_label"], figure["y_label"])
        write_text(folder / f"figure-{number.replace(' ', '-')}.svg", drawn)
    if json_:
        print(text, end="")
        return
    for number, figure in made["figures"].items():
        print(f"\nFig. {number}: {figure['y_label']} over {figure['x_label']}")
        print(" " * 18 + "".join(f"{value:>9g}" for value in figure["x"]))
        for name, values in figure["series"].items():
            print(f"{name:18}" + "".join("        –" if value is None else f"{value:>9.3g}" for value in values))
    show_claims(made["claims"])
    typer.echo(f"written to {folder}")


def reproduce_all(folder: Path, json_: bool, quiet: bool) -> None:
    """Work out every claim of the papers, write the page and the numbers, print a line a claim."""
    from palmette.report.claims import claims_page
    from palmette.reproduce.everything import everything
    from palmette.spec.files import write_text

    made = everything((lambda _: None) if quiet else on_stderr)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    write_text(folder / "claims.json", text)
    write_text(folder / "claims.html", claims_page(made))
    if json_:
        print(text, end="")
        return
    for paper in made["papers"]:
        print(f"\n{paper['title']}\n{paper['command']}")
        if paper["failed"]:
            print(f"- {paper['failed']}")
        for row in paper["claims"]:
            print(f"- {row['figure']}: {row['claim']}: paper {row['paper']}, ours {row['ours']}: {row['verdict']}")
    print("\n" + ", ".join(f"{many} {verdict}" for verdict, many in made["counts"].items()))
    print(f"written to {folder / 'claims.html'}")


def on_stderr(what: str) -> None:
    """Say what is being worked on."""
    print(what, file=sys.stderr)


def _drawn(number: str, figure: dict[str, Any]) -> str:
    from palmette.report.lines import line_chart

    def each(what: str) -> dict[str, list[Any]]:
        return {name: [point[what] for point in points] for name, points in figure["series"].items()}

    run = {name: [how == "measured" for how in points] for name, points in each("how").items()}
    title = f"HierTrain, Fig. {number}: {figure['title']}"
    return line_chart(
        title, figure["x"], each("iteration_s"), figure["x_label"], "seconds of an iteration", measured=run
    )


def _show(made: dict[str, Any]) -> None:
    for number, figure in made["figures"].items():
        _show_figure(number, figure)
    print("\nTable II: seconds of a planning")
    for name, row in made["table_2"].items():
        told = f"{row['layers']:>3} layers   Algorithm 1 {row['algorithm_1_s']:.3g}   exact {row['exact_s']:.3g}"
        print(f"{name:10} {told}")
    show_claims(made["claims"])
    _show_causes(made["causes"])


def show_claims(claims: list[dict[str, Any]]) -> None:
    """Print each claim with what came out here, and where they differ why."""
    print("\nThe paper's claims")
    for row in claims:
        where = f"Fig. {row['figure']}" if row["figure"].isdigit() else row["figure"]
        verdict = "as in the paper" if row["agrees"] else "differs"
        print(f"- {where}: {row['claim']}: paper {row['paper']}, ours {row['ours']}: {verdict}")
        if not row["agrees"]:
            print(f"  {row['why']}")


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
