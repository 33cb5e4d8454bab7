"""What reproducing any paper has in common: progress on stderr, a folder with numbers and pictures, claims."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from palmette.spec.files import write_text

Made: TypeAlias = dict[str, Any]


def teller(quiet: bool) -> Callable[[str], None]:
    """Say what is being worked on, or say nothing."""
    return (lambda _: None) if quiet else (lambda what: print(what, file=sys.stderr, flush=True))


def present(made: Made, target: Path, pages: dict[str, str], json_: bool, show: Callable[[Made], None]) -> None:
    """Write the numbers to ``target`` and each page or picture beside it; print JSON, or show it to people."""
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, text)
    for name, content in pages.items():
        write_text(target.with_name(name), content)
    if json_:
        print(text, end="")
        return
    show(made)
    print(f"written to {target.parent}")


def show_claims(claims: list[dict[str, Any]]) -> None:
    """Print each claim with what came out here, and where they differ why."""
    print("\nThe paper's claims")
    for row in claims:
        where = f"Fig. {row['figure']}" if row["figure"].isdigit() else row["figure"]
        verdict = "as in the paper" if row["agrees"] else "differs"
        print(f"- {where}: {row['claim']}: paper {row['paper']}, ours {row['ours']}: {verdict}")
        if not row["agrees"]:
            print(f"  {row['why']}")


def show_row(name: str, wide: int, values: list[float | None]) -> None:
    """Print a series of a figure, a cell of nine characters a value."""
    print(f"{name:{wide}}" + "".join("        –" if value is None else f"{value:>9.3g}" for value in values))
