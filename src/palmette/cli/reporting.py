"""``palmette report``: one page of plans and runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palmette.api import load_cluster, load_profile
from palmette.report.entry import read_entries
from palmette.report.making import report
from palmette.spec.files import write_text
from palmette.spec.reading import size


def make_report(
    paths: Sequence[Path], output: Path, profile: Path | None, cluster: Path | None, with_rivals: bool
) -> None:
    """Write the page of these plans and runs."""
    entries = read_entries(
        paths,
        load_profile(profile) if profile else None,
        load_cluster(cluster) if cluster else None,
    )
    text = report(entries, with_rivals=with_rivals)
    write_text(output, text)
    print(f"{output}: {size(len(text.encode()))}, open it in any browser")
