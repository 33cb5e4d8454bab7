"""``palmette reproduce all``: every claim of the papers on one page."""

from __future__ import annotations

from pathlib import Path

from palmette.cli.reproduce.frame import Made, present, teller
from palmette.report.claims import claims_page
from palmette.reproduce.everything import everything


def reproduce_all(folder: Path, json_: bool, quiet: bool) -> None:
    """Work out every claim of the papers, write the page and the numbers, print a line a claim."""
    made = everything(teller(quiet))
    present(made, folder / "claims.json", {"claims.html": claims_page(made)}, json_, _show)


def _show(made: Made) -> None:
    for paper in made["papers"]:
        print(f"\n{paper['title']}\n{paper['command']}")
        if paper["failed"]:
            print(f"- {paper['failed']}")
        for row in paper["claims"]:
            print(f"- {row['figure']}: {row['claim']}: paper {row['paper']}, ours {row['ours']}: {row['verdict']}")
    print("\n" + ", ".join(f"{many} {verdict}" for verdict, many in made["counts"].items()))
