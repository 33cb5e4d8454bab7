"""A run as people see it: a progress bar while it runs, a table when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from palmette.cli.show.console import console, energy, time
from palmette.control.run.session import TrainingSession
from palmette.runtime.training.job import ProgressUpdate, RemainingTime, RunOutcome
from palmette.runtime.training.loop import Training


class ProgressDisplay:
    """What people see while it runs: how long it will take, and a bar where there is a terminal."""

    def __init__(self, screen: Console, progress: Progress | None, quiet: bool) -> None:
        self._screen, self._progress, self._quiet = screen, progress, quiet
        self._samples = 0
        if progress is not None:
            self._task = progress.add_task("run", total=None, epoch=0, loss=0.0, speed=0.0, status="starting")

    def begin(self, training: Training) -> None:
        """A training is about to begin."""
        training.on_time_estimate.append(self._show_prediction)
        if self._progress is not None:
            self._progress.update(self._task, total=training.iterations, completed=training.outcome.iterations)

    def _show_prediction(self, outlook: RemainingTime) -> None:
        """Print how long it will take on this machine."""
        if self._quiet:
            return
        if self._progress is not None:
            self._progress.update(self._task, status="")
        for line in prediction_lines(outlook):
            self._screen.print(f"palmette: {line}", highlight=False, soft_wrap=True)

    def update(self, update: ProgressUpdate) -> None:
        """Move the bar."""
        if self._progress is None:
            return
        if update.evaluation is not None:
            self._progress.update(self._task, status=f"accuracy {update.evaluation.accuracy:.1%}")
            return
        self._samples += update.samples
        self._progress.update(
            self._task,
            total=update.iterations,
            completed=update.iteration,
            epoch=update.epoch,
            loss=update.loss,
            speed=self._samples / update.wall_s if update.wall_s else 0.0,
        )


def prediction_lines(outlook: RemainingTime) -> list[str]:
    """How long the rest takes on this machine, as text."""
    left = "1 iteration takes" if outlook.iterations == 1 else f"{outlook.iterations} iterations take"
    line = f"{left} about {_duration(outlook.expected_s)} on this machine (time dilation {outlook.dilation:g})"
    if outlook.increased:
        return ["this machine could not keep up: time dilation was increased, and iterations are measured again", line]
    return [line]


def _duration(seconds: float) -> str:
    """Seconds, rounded for people."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress_display(quiet: bool) -> Iterator[ProgressDisplay]:
    """The display of a run, on stderr."""
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield ProgressDisplay(screen, None, quiet)
        return
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}  {task.fields[speed]:.0f} samples/s  {task.fields[status]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen) as progress:
        yield ProgressDisplay(screen, progress, quiet)


def _times(outcome: RunOutcome, session: TrainingSession) -> list[tuple[str, float, float]]:
    """Measured times beside their estimates."""
    found = outcome.measured.get(outcome.phase)
    rows = []
    if found is not None and found.iteration_s is not None:
        rows.append(("an iteration", found.iteration_s, session.estimate_s(outcome)))
    if found is not None and found.epoch_s is not None and found.estimate_epoch_s is not None:
        rows.append(("an epoch", found.epoch_s, found.estimate_epoch_s))
    return rows


def _dilation_increase(outcome: RunOutcome) -> str:
    """Since when, if the time dilation was increased during the run."""
    if not outcome.dilation_increases:
        return ""
    since = outcome.dilation_increases[-1].iteration
    return f" from iteration {since} on, since this machine could not keep up; measured from there"


def show_outcome(outcome: RunOutcome, session: TrainingSession) -> None:
    """Print how long an iteration took beside the estimate, and what each node did with its time."""
    out = console()
    if outcome.evaluation is not None:
        out.print(f"accuracy on held-out data: {outcome.evaluation.accuracy:.1%}, loss {outcome.evaluation.loss:.4f}")
    emulated = session.request.testbed != "none"
    for what, measured, estimated in _times(outcome, session):
        line = f"{what}: measured {time(measured)}"
        if emulated and estimated:
            line += f", estimated {time(estimated)} ({measured / estimated - 1:+.1%})"
        out.print(line)
    if emulated:
        out.print(f"time dilation {outcome.dilation:g}{_dilation_increase(outcome)}")
    if outcome.energy_j is not None and outcome.iterations:
        out.print(f"energy: {energy(outcome.energy_j)} (modelled: declared power on the measured trace)")
    table = Table("node", box=None, pad_edge=False)
    headings = ("computing", "sending", "waiting")
    for heading in headings:
        table.add_column(heading, justify="right")
    for node, seconds in outcome.node_seconds.items():
        table.add_row(node, *(time(seconds[f"{heading}_s"]) for heading in headings))
    out.print(table)
    out.print(f"{session.folder}")
