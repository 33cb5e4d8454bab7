"""A progress bar of work whose steps have names, and of which only the typical time in all is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def steps_progress(quiet: bool, typical_s: float) -> Iterator[Callable[[str], None]]:
    """A bar on stderr where that is a terminal; takes what is being worked on."""
    from palmette.control.progress.style import shown_bar

    with shown_bar(quiet) as bar:
        task = bar.add_task("starting", total=None, expected_s=typical_s)
        yield lambda what: bar.update(task, description=what)
