"""The warm-up ends when it should, and only the timed steps count."""

from __future__ import annotations

from palmette.control.pretrain.step_timer import StepCounts, StepTimer


def taken(counts: StepCounts, steps_s: list[float]) -> StepTimer:
    timer = StepTimer(counts)
    for each in steps_s:
        if not timer.done:
            timer.step(each)
    return timer


def test_only_the_timed_steps_count() -> None:
    timer = taken(StepCounts(warmup=3, timed=2, counted=2), [9, 9, 9, 1, 1, 5, 5])
    assert (timer.warm_at, timer.step_s, timer.done) == (3, 1, True)


def test_a_slow_start_is_waited_for() -> None:
    falling = [1.0 + 2.0 * 0.97**k for k in range(2000)]
    patient = taken(StepCounts(warmup=100, timed=20, counted=0, until_stable=True), falling)
    fixed = taken(StepCounts(warmup=100, timed=20, counted=0), falling)
    assert patient.warm_at is not None
    assert 100 < patient.warm_at < 300
    assert abs(patient.step_s - 1) < 0.02 < abs(fixed.step_s - 1)


def test_steady_steps_need_little_warm_up() -> None:
    timer = taken(StepCounts(warmup=300, timed=10, counted=0, until_stable=True), [1.0] * 1000)
    assert timer.warm_at == 60


def test_steps_that_never_agree_end_all_the_same() -> None:
    timer = taken(StepCounts(warmup=20, timed=5, counted=5, until_stable=True), [float(k + 1) for k in range(5000)])
    assert timer.warm_at == 200
    assert timer.done


def test_no_warm_up_at_all() -> None:
    timer = taken(StepCounts(warmup=0, timed=2, counted=1), [4, 4, 4])
    assert timer.done
    assert timer.step_s == 4
