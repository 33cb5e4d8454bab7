"""The progress of a run in a terminal: how long it will take, and a bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn
from rich.table import Column

from palmette.control.progress.style import shown_bar
from palmette.control.progress.wording import held_out_brief, prediction_lines
from palmette.control.run.callbacks import RunCallback, RunStart
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import ProgressUpdate, RemainingTime


class ProgressDisplay(RunCallback):
    """What people see while it runs: how long it will take, and a bar where there is a terminal."""

    def __init__(self, screen: Console, progress: Progress | None, quiet: bool) -> None:
        self._screen, self._progress, self._quiet = screen, progress, quiet
        self._samples = 0
        if progress is not None:
            self._task = progress.add_task("starting", total=None, about="", status="")

    def on_start(self, start: RunStart) -> None:
        """A training is about to begin."""
        if self._progress is not None:
            self._progress.update(self._task, total=start.iterations, completed=start.iteration)

    def on_time_estimate(self, remaining: RemainingTime) -> None:
        """Print how long it will take on this machine."""
        if self._quiet:
            return
        if self._progress is not None:
            self._progress.update(self._task, description="training", expected_s=remaining.expected_s)
        for line in prediction_lines(remaining):
            self._screen.print(f"palmette: {line}", highlight=False, soft_wrap=True)

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Show what was measured."""
        if self._progress is not None:
            self._progress.update(self._task, status=held_out_brief(evaluation))

    def on_step(self, update: ProgressUpdate) -> None:
        """Move the bar."""
        if self._progress is None:
            return
        self._samples += update.samples
        self._progress.update(
            self._task,
            description=f"epoch {update.epoch}, iteration {update.iteration} of {update.iterations}",
            total=update.iterations,
            completed=update.iteration,
            about=f"loss {update.loss:.4f}  {self._samples / update.wall_s if update.wall_s else 0.0:.0f} samples/s",
        )


@contextmanager
def terminal_progress(quiet: bool = False, *, bar: bool | None = None) -> Iterator[ProgressDisplay]:
    """The display of a run, on stderr; with a ``bar`` where that is a terminal, unless told."""
    screen = Console(stderr=True)
    if quiet or not (screen.is_terminal if bar is None else bar):
        yield ProgressDisplay(screen, None, quiet)
        return
    on_a_line = Column(no_wrap=True, overflow="ellipsis")
    details = TextColumn("{task.fields[about]}  {task.fields[status]}", markup=False, table_column=on_a_line)
    with shown_bar(False, details, transient=False, shown=bar) as progress:
        yield ProgressDisplay(progress.console, progress, quiet)
