"""One bar for all: the time left as soon as anything is known of it, and nothing where nobody looks."""

from __future__ import annotations

import pytest
from rich.progress import Progress

import palmette as pt
from palmette.cli.show.profile_progress import profile_progress
from palmette.cli.show.progress_bar import progress_bar
from palmette.cli.show.steps_progress import steps_progress
from palmette.control.progress.style import TimeLeftColumn, shown_bar
from tests.plan.problems import profile, three_tiers


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


def test_steps_of_minutes_have_a_speed() -> None:
    clock = Clock()
    bar = shown_bar(True)
    bar.get_time = clock
    task = bar.add_task("curves", total=10)
    for done in (1, 2):
        clock.now_s += 90
        bar.update(task, completed=done)
    assert told(bar) == "0:12:00 left"


def test_what_was_done_before_a_run_went_on_does_not_count_as_speed() -> None:
    clock = Clock()
    bar = Progress(get_time=clock, disable=True)
    task = bar.add_task("training", total=100, completed=90, expected_s=50.0)
    clock.now_s += 1
    assert told(bar) == "0:00:49 left"
    bar.update(task, completed=90)
    assert told(bar) == "0:00:49 left"


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["hybrid", "auto"])
def test_a_search_tells_how_far_it_is(strategy: str) -> None:
    seen: list[tuple[str, float]] = []
    inputs = {"profile": profile(3), "cluster": three_tiers(), "batch": 4}
    pt.plan(strategy, **inputs, effort=0.01, progress=lambda *told: seen.append(told))
    assert [done for _, done in seen] == sorted(done for _, done in seen)
    assert len({what for what, _ in seen}) >= 4
    assert 0 <= seen[0][1] < seen[-1][1] < 1


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_bar(False) as bar:
        assert bar.disable
    with profile_progress(False) as progress, progress_bar("curves", False) as watch:
        progress("conv1", 0.5)
        watch.expect(20.0)
        watch.tell(1, 3)
    with steps_progress(False, 60.0) as say:
        say("Fig. 2")
    assert capsys.readouterr() == ("", "")
