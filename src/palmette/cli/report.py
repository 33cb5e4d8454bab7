"""``palmette report``: one page of plans and runs, and in the terminal how accurate the predictions were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt

if TYPE_CHECKING:
    from palmette.report.entry import ReportEntry


def report(
    paths: Annotated[list[Path], typer.Argument(help="Plan files and folders of runs.", metavar="RUN_OR_PLAN...")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write (HTML).")] = Path("report.html"),
    profile: opt.AnyProfileFile = None,
    cluster: opt.AnyClusterFile = None,
    rivals: Annotated[
        bool, typer.Option("--rivals/--no-rivals", help="Add the plans of every strategy, for time and for energy.")
    ] = True,
) -> None:
    """Write one self-contained page: the tree, an iteration, loss, energy, and all strategies.

    Example: palmette report run plan.json -o report.html
    """
    import palmette as pt
    from palmette.report.build import build_report as make_report
    from palmette.report.entry import read_entries
    from palmette.spec.files import write_text
    from palmette.spec.reading import size

    entries = read_entries(
        paths,
        pt.load_profile(profile) if profile else None,
        pt.load_cluster(cluster) if cluster else None,
    )
    text = make_report(entries, with_rivals=rivals)
    write_text(output, text)
    for line in [*prediction_errors(entries), *speed_ups(entries)]:
        print(line)
    print(f"{output}: {size(len(text.encode()))}, open it in any browser")


def prediction_errors(entries: Sequence[ReportEntry]) -> Iterator[str]:
    """A line for each run on a testbed: what an iteration took, and how far the prediction was off."""
    from palmette.spec.reading import time

    for entry in entries:
        run = entry.run
        if run is not None and run.iteration_s and run.estimate_s and run.emulated:
            off = run.iteration_s / run.estimate_s - 1
            yield f"{entry.name}: measured {time(run.iteration_s)}, predicted {time(run.estimate_s)} ({off:+.1%})"


def speed_ups(entries: Sequence[ReportEntry]) -> Iterator[str]:
    """How much faster the fastest run is than the others with the same network and batch."""
    took = {
        entry.name: entry.run.iteration_s
        for entry in entries
        if entry.run is not None and entry.run.iteration_s and _same_training(entry, entries[0])
    }
    best = min(took, key=lambda name: took[name], default="")
    for name in (name for name in took if name != best):
        yield f"{best} is {took[name] / took[best]:.2f} times as fast as {name}, measured"


def _same_training(a: ReportEntry, b: ReportEntry) -> bool:
    return (a.plan.model, a.plan.batch) == (b.plan.model, b.plan.batch)
