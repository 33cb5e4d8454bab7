"""``palmette report``: one page of plans and runs, and in the terminal how right the predictions were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from palmette.api import load_cluster, load_profile
from palmette.report.build import build_report
from palmette.report.entry import ReportEntry, read_entries
from palmette.spec.files import write_text
from palmette.spec.reading import size, time


def make_report(
    paths: Sequence[Path], output: Path, profile: Path | None, cluster: Path | None, with_rivals: bool
) -> None:
    """Write the page of these plans and runs."""
    entries = read_entries(
        paths,
        load_profile(profile) if profile else None,
        load_cluster(cluster) if cluster else None,
    )
    text = build_report(entries, with_rivals=with_rivals)
    write_text(output, text)
    for line in [*errors(entries), *speed_up(entries)]:
        print(line)
    print(f"{output}: {size(len(text.encode()))}, open it in any browser")


def errors(entries: Sequence[ReportEntry]) -> Iterator[str]:
    """A line for each run on a testbed: what an iteration took, and by how much the prediction was off."""
    for entry in entries:
        run = entry.run
        if run is not None and run.iteration_s and run.estimate_s and run.testbed != "none":
            off = run.iteration_s / run.estimate_s - 1
            yield f"{entry.name}: measured {time(run.iteration_s)}, predicted {time(run.estimate_s)} ({off:+.1%})"


def speed_up(entries: Sequence[ReportEntry]) -> Iterator[str]:
    """How much faster the fastest run is than the others with the same network and batch."""
    took = {
        entry.name: entry.run.iteration_s
        for entry in entries
        if entry.run is not None and entry.run.iteration_s and _same(entry, entries[0])
    }
    best = min(took, key=lambda name: took[name], default="")
    for name in (name for name in took if name != best):
        yield f"{best} is {took[name] / took[best]:.2f} times as fast as {name}, measured"


def _same(a: ReportEntry, b: ReportEntry) -> bool:
    return (a.plan.model, a.plan.batch) == (b.plan.model, b.plan.batch)
