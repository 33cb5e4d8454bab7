"""How all progress looks in a terminal: what is going on, a bar, how far, and the time left."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.table import Column
from rich.text import Text

_OF_LATE_S = 600.0
"""Over how long a speed is taken: there are steps of minutes, and two of them have to be seen."""


class TimeLeftColumn(ProgressColumn):
    """The time left: by the speed of late; before there is one by what was ``expected_s``; else the time so far.

    What takes longer than expected says the time so far, too: nothing is known of the rest.
    """

    max_refresh = 0.5

    def get_table_column(self) -> Column:
        """It stays on its line."""
        return Column(no_wrap=True)

    def render(self, task: Task) -> Text:
        """As a person reads it."""
        so_far_s = (task.elapsed if task.finished_time is None else task.finished_time) or 0.0
        left_s, expected_s = task.time_remaining, task.fields.get("expected_s")
        if left_s is None and expected_s is not None and so_far_s < expected_s:
            left_s = expected_s - so_far_s
        if left_s is None or task.finished:
            return Text(f"{timedelta(seconds=int(so_far_s))} so far", style="progress.elapsed")
        return Text(f"{timedelta(seconds=round(left_s))} left", style="progress.remaining")


def shown_bar(
    quiet: bool,
    *details: TextColumn,
    transient: bool = True,
    auto_refresh: bool = True,
    shown: bool | None = None,
) -> Progress:
    """A bar on stderr, which shows nothing where that is no terminal, unless ``shown`` says otherwise."""
    screen = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        *details,
        TimeLeftColumn(),
        console=screen,
        transient=transient,
        auto_refresh=auto_refresh,
        speed_estimate_period=_OF_LATE_S,
        disable=quiet or not (screen.is_terminal if shown is None else shown),
    )
