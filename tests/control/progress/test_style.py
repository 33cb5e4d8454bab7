"""One bar for all: the time left as soon as anything is known of it, and nothing where nobody looks."""

from __future__ import annotations

import pytest
from rich.progress import Progress

from palmette.cli.show.profile_progress import profile_progress
from palmette.cli.show.progress_bar import progress_bar
from palmette.cli.show.steps_progress import steps_progress
from palmette.control.progress.style import TimeLeftColumn, shown_bar


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def told(bar: Progress) -> str:
    return str(TimeLeftColumn().render(bar.tasks[0]))


def test_the_time_left_is_known_from_the_first_second() -> None:
    clock = Clock()
    bar = Progress(get_time=clock, disable=True)
    task = bar.add_task("training", total=10)
    clock.now_s += 2
    assert told(bar) == "0:00:02 so far"
    bar.update(task, expected_s=30.0)
    assert told(bar) == "0:00:28 left"
    clock.now_s += 30
    assert told(bar) == "0:00:32 so far"
    clock.now_s -= 30
    for done in (1, 2, 3):
        clock.now_s += 1
        bar.update(task, completed=done)
    assert told(bar) == "0:00:07 left"
    bar.update(task, completed=10)
    assert told(bar) == "0:00:05 so far"


def test_what_was_done_before_a_run_went_on_does_not_count_as_speed() -> None:
    clock = Clock()
    bar = Progress(get_time=clock, disable=True)
    task = bar.add_task("training", total=100, completed=90, expected_s=50.0)
    clock.now_s += 1
    assert told(bar) == "0:00:49 left"
    bar.update(task, completed=90)
    assert told(bar) == "0:00:49 left"


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_bar(False) as bar:
        assert bar.disable
    with profile_progress(False) as progress, progress_bar("curves", False) as watch:
        progress("conv1", 0.5)
        watch(1, 3)
    with steps_progress(False, 60.0) as say:
        say("Fig. 2")
    assert capsys.readouterr() == ("", "")
