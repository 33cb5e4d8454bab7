"""A progress bar on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from palmette.control.progress.style import shown_bar


@contextmanager
def progress_bar(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr where that is a terminal; takes how many are done, and of how many."""
    with shown_bar(quiet) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(
            task, description=f"{what}: {done} of {total}", completed=done, total=total
        )
