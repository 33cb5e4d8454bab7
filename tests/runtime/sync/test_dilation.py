"""When time is stretched further while a run goes on, and what becomes of the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.sync.dilation import (
    AIM,
    LATE,
    LEAST,
    MOST,
    MOST_TIMES,
    WINDOW,
    DilationControl,
    dilation_factor,
    lateness,
)
from palmette.runtime.worker.commands import Command, SetPace
from palmette.runtime.worker.executor import MOST_LATE_S, Pace


def record(start_s: float, end_s: float, late_s: float = 0.0, op: str = "forward") -> OperationRecord:
    return OperationRecord(0, op, 0, None, start_s, end_s, 0, late_s)


def test_an_iteration_is_as_late_as_its_last_operation() -> None:
    assert lateness([record(0, 1, 0.01), record(1, 2, 0.005)]) == pytest.approx(0.0025)


def test_what_is_too_late_to_be_made_up_for_counts_too() -> None:
    assert lateness([record(0, 1, MOST_LATE_S + 0.1), record(1, 2)]) == pytest.approx(0.05)


def test_an_iteration_does_not_begin_when_a_receive_is_posted() -> None:
    assert lateness([record(-10, 1, op="receive"), record(0, 2, 0.01)]) == pytest.approx(0.005)


@pytest.mark.parametrize(("late", "by"), [(0.0, 1.0), (LATE, 1.0), (2 * LATE, 2 * LATE / AIM), (1.0, MOST)])
def test_the_later_the_wider(late: float, by: float) -> None:
    assert dilation_factor([late] * WINDOW) == pytest.approx(by)
    assert dilation_factor([0.0, late]) == 1.0  # once is chance
    assert LEAST < LATE / AIM


@dataclass
class Stand:
    """A ground, a crew and a log in one, which only take down what happens."""

    emulates: bool = True
    fixed: bool = False
    sent: list[tuple[str, Command]] = field(default_factory=list)
    stretched_at: list[tuple[int, float]] = field(default_factory=list)

    def increase_dilation(self, by: float) -> dict[str, dict[int, Pace]] | None:
        return None if self.fixed else {"a": {0: Pace({0: by})}}

    def send(self, node: str, command: Command) -> None:
        self.sent.append((node, command))

    def dilation_increased(self, at: int, by: float) -> None:
        self.stretched_at.append((at, by))


def gone_through(stand: Stand, late_s: float, iterations: int) -> Stand:
    """Iterations of a second, each of which ends late."""
    widening = DilationControl(stand, stand, stand)  # type: ignore[arg-type]
    for at in range(iterations):
        widening.note({"a": [record(0.0, 1.0, late_s)]})
        widening.adjusted(at + 1)
    return stand


def test_a_machine_that_keeps_up_is_left_alone() -> None:
    assert gone_through(Stand(), 0.001, 20).stretched_at == []


def test_one_that_does_not_is_given_more_time_after_a_few_iterations() -> None:
    stand = gone_through(Stand(), 0.018, WINDOW + 1)
    assert stand.stretched_at == [(WINDOW + 1, pytest.approx(3.0))]
    ((node, command),) = stand.sent
    assert node == "a"
    assert isinstance(command, SetPace)


def test_that_happens_a_few_times_at_most() -> None:
    assert len(gone_through(Stand(), 0.018, 100).stretched_at) == MOST_TIMES


@pytest.mark.parametrize("stand", [Stand(fixed=True), Stand(emulates=False)])
def test_not_where_the_dilation_is_given_or_nothing_is_emulated(stand: Stand) -> None:
    assert gone_through(stand, 0.018, 100).stretched_at == []
