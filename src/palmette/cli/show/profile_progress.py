"""A progress bar of a network that is being profiled, and of strategies that are compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.measure.contexts import Progress

REFRESH_S = 0.1


@contextmanager
def profile_progress(quiet: bool, doing: str = "measuring") -> Iterator[Progress]:
    """A bar on stderr where that is a terminal; it is drawn only between measurements, never while a layer is timed.

    What is told is the object of what is ``doing``.
    """
    from palmette.control.progress.style import shown_bar

    with shown_bar(quiet, auto_refresh=False) as bar:
        task, drawn = bar.add_task(doing or "starting", total=1.0), 0.0

        def progress(what: str, done: float) -> None:
            nonlocal drawn
            if monotonic() - drawn >= REFRESH_S:
                bar.update(task, description=f"{doing} {what}".lstrip(), completed=done, refresh=True)
                drawn = monotonic()

        yield progress
