"""What the commands share: progress on stderr, a folder with numbers and pictures, claims."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]


def progress_printer(quiet: bool) -> Callable[[str], None]:
    """Prints what is being worked on, or nothing."""
    return (lambda _: None) if quiet else (lambda what: print(what, file=sys.stderr, flush=True))


def create_folder(folder: Path) -> Path:
    """The folder for figures, created before minutes of work that it is to hold."""
    from palmette.spec.files import make_folder

    make_folder(folder)
    return folder


def present(made: Record, target: Path, pages: dict[str, str], json_: bool, show: Callable[[Record], None]) -> None:
    """Write the numbers to ``target`` and each page or picture beside it; print JSON, or tables for people."""
    from palmette.spec.files import write_text

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
    """Print each claim with our result, and why where they differ."""
    print("\nThe paper's claims")
    for row in claims:
        where = f"Fig. {row['figure']}" if row["figure"].isdigit() else row["figure"]
        verdict = "as in the paper" if row["agrees"] else "differs"
        print(f"- {where}: {row['claim']}: paper {row['paper']}, ours {row['ours']}: {verdict}")
        if not row["agrees"]:
            print(f"  {row['why']}")


def show_row(name: str, wide: int, values: list[float | None]) -> None:
    """Print a series of a figure, nine characters per value."""
    print(f"{name:{wide}}" + "".join("        –" if value is None else f"{value:>9.3g}" for value in values))
