"""Who is silent for too long is named; who slept itself blames nobody."""

from __future__ import annotations

from palmette.runtime.transports.liveness import Liveness


def test_whoever_was_not_heard_for_longer_than_patience_is_named() -> None:
    liveness = Liveness(4.0, 1.5)
    liveness.heard(["phone", "cloud"], 0.0)
    for tenth in range(1, 60):
        liveness.heard(["phone"], tenth / 10)
        found = liveness.first_silent(tenth / 10)
        assert found == ("cloud" if tenth > 40 else None)
    assert liveness.silent_s("cloud", 5.9) == 5.9


def test_nobody_is_waited_for_before_or_after_its_time() -> None:
    liveness = Liveness(4.0, 1.5)
    assert liveness.first_silent(0.0) is None
    liveness.heard(["phone"], 0.0)
    liveness.forget("phone")
    liveness.forget("nobody")
    assert [liveness.first_silent(float(second)) for second in range(10)] == [None] * 10
    assert not liveness.is_known("phone")
    assert liveness.silent_s("phone", 3.0) == float("inf")


def test_whoever_slept_gives_the_others_as_long_again() -> None:
    liveness = Liveness(4.0, 1.5)
    liveness.heard(["phone"], 0.0)
    assert liveness.first_silent(1.0) is None
    assert liveness.first_silent(100.0) is None  # asleep for 99 s
    awake = [100.0 + tenth / 10 for tenth in range(1, 60)]
    assert next(now for now in awake if liveness.first_silent(now)) == 103.1  # 1 s before it slept, and 3.1 s after
