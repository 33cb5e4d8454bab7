"""What the commands share: a folder with numbers and pictures, claims."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]


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
        verdict = "as in the paper" if row["agrees"] else row.get("fitted", "differs")
        with_fit = f" ({row['fitted_ours']})" if "fitted_ours" in row else ""
        print(f"- {where}: {row['claim']}: paper {row['paper']}, ours {row['ours']}: {verdict}{with_fit}")
        for why in ("contradiction", "why"):
            if not row["agrees"] and why in row:
                print(f"  {row[why]}")


def show_fit(title: str, fit: dict[str, Any], unknowns: Callable[[dict[str, float]], str]) -> None:
    """Print fitted machines and what claims come to with them; where some do not hold, those closest to all, too."""
    print(f"\n{title}\nfitted: {unknowns(fit['values'])}")
    fails = any(row["residual"] for row in fit["claims"])
    if fails:
        print(f"closest to all claims: {unknowns(fit['closest'])}")
    for row in fit["claims"]:
        closest = f"; closest {row['closest']}, off by {row['closest_residual']:.1%}" if fails else ""
        print(f"{'✗' if row['residual'] else '✓'} {row['claim']}: {row['ours']}{closest}")
    for each in fit["contradictions"]:
        print(f"cannot all be true: “{'”, “'.join(each['claims'])}”\n  {each['why']}")


def show_row(name: str, wide: int, values: list[float | None]) -> None:
    """Print a series of a figure, nine characters per value."""
    print(f"{name:{wide}}" + "".join("        –" if value is None else f"{value:>9.3g}" for value in values))
