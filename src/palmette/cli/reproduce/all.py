"""``palmette reproduce all``: every claim of the papers on one page."""

from __future__ import annotations

from pathlib import Path

from palmette.cli import options as opt
from palmette.cli.reproduce.output import Record, create_folder, present


def reproduce_all(
    output: opt.Figures = Path("reproduction"),
    json_: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare every claim of the four papers with ours: reproduced, better, or not reached.

    Example: palmette reproduce all -o reproduction
    """
    from palmette.cli.show.steps_progress import steps_progress
    from palmette.report.claims import claims_page
    from palmette.reproduce.everything import everything, typical_s

    folder = create_folder(output)
    with steps_progress(quiet or json_, typical_s()) as progress:
        made = everything(progress)
    present(made, folder / "claims.json", {"claims.html": claims_page(made)}, json_, _show)


def _show(made: Record) -> None:
    for paper in made["papers"]:
        print(f"\n{paper['title']}\n{paper['command']}")
        if paper["failed"]:
            print(f"- {paper['failed']}")
        for row in paper["claims"]:
            print(f"- {row['figure']}: {row['claim']}: paper {row['paper']}, ours {row['ours']}: {row['verdict']}")
    print("\n" + ", ".join(f"{many} {verdict}" for verdict, many in made["counts"].items()))
