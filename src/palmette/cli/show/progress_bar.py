"""A progress bar on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import Progress, TaskID

from palmette.control.progress.style import shown_bar


@dataclass(frozen=True)
class CountedProgress:
    """A bar of things that are counted."""

    bar: Progress
    task: TaskID
    what: str

    def tell(self, done: int, total: int) -> None:
        """How many are done, and of how many."""
        self.bar.update(self.task, description=f"{self.what}: {done} of {total}", completed=done, total=total)

    def expect(self, seconds: float) -> None:
        """How long all of them will take, as far as that is known in advance."""
        self.bar.update(self.task, expected_s=seconds)


@contextmanager
def progress_bar(what: str, quiet: bool) -> Iterator[CountedProgress]:
    """A bar on stderr where that is a terminal."""
    with shown_bar(quiet) as bar:
        yield CountedProgress(bar, bar.add_task(what, total=None), what)
