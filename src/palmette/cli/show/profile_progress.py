"""A progress bar of a network that is being profiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.measure.contexts import Progress

REFRESH_S = 0.1


@contextmanager
def profile_progress(quiet: bool) -> Iterator[Progress]:
    """A bar on stderr where that is a terminal; it is drawn only between measurements, never while a layer is timed."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    out = Console(stderr=True)
    columns = (
        TextColumn("measuring"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=out, transient=True, auto_refresh=False, disable=quiet or not out.is_terminal) as bar:
        task, drawn = bar.add_task("", total=1.0), 0.0

        def progress(layer: str, done: float) -> None:
            nonlocal drawn
            if monotonic() - drawn >= REFRESH_S:
                bar.update(task, description=layer, completed=done, refresh=True)
                drawn = monotonic()

        yield progress
