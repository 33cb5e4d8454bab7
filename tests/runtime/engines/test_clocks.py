"""What hosts tell in times of their own clocks is told in times of ours."""

from __future__ import annotations

from palmette.runtime.engines.clocks import HostClock
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.worker.commands import IterationDone, WorkerAlive


def done(start_s: float, end_s: float) -> IterationDone:
    return IterationDone(0, 3, 1.5, start_s, [OperationRecord(1, "send", 0, 2, start_s, end_s, 10)])


def test_the_quickest_answer_tells_how_far_apart_two_clocks_are() -> None:
    clock = HostClock()
    for took_s in (0.3, 0.001, 0.05):
        clock.note(there_s=100.0, here_s=9100.0 + took_s)
    translated = clock.translated(done(100.0, 100.5))
    assert isinstance(translated, IterationDone)
    (record,) = translated.records
    assert (record.start_s, record.end_s) == (9100.001, 9100.501)
    assert (translated.loss, translated.iteration, record.bytes) == (1.5, 3, 10)


def test_clocks_that_drift_are_followed() -> None:
    clock = HostClock()
    for second in range(10_000):
        clock.note(there_s=second * 1.0, here_s=second * 1.0001)  # ours runs faster by a tenth of a per mille
    translated = clock.translated(done(9_999.0, 9_999.0))
    assert isinstance(translated, IterationDone)
    assert abs(translated.records[0].start_s - 9_999.0 * 1.0001) < 0.03


def test_what_has_no_times_stays_as_it_is() -> None:
    assert HostClock().translated(WorkerAlive()) == WorkerAlive()
