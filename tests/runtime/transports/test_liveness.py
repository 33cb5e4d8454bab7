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


def lost_after_s(liveness: Liveness, beats_s: list[float], look_every_s: float) -> float:
    """How long after its last heartbeat a peer is found silent."""
    now, left = beats_s[0], list(beats_s)
    while True:
        if left and left[0] <= now:
            liveness.heard(["phone"], left.pop(0))
        if liveness.first_silent(now) is not None:
            return now - beats_s[-1]
        now += look_every_s


def test_on_a_quiet_machine_the_timeout_counts() -> None:
    beats = [number * 0.52 for number in range(100)]
    assert 4.0 < lost_after_s(Liveness(4.0, 1.5), beats, 0.25) < 4.3
    rare = [number * 1.55 for number in range(100)]
    assert 4.0 < lost_after_s(Liveness(4.0, 1.5), rare, 0.25) < 4.3


def test_whose_heartbeats_came_late_has_longer_and_not_for_ever() -> None:
    late = [0.0, 0.5, 3.9, 4.4, 7.6, 8.1]
    assert 5.5 < lost_after_s(Liveness(4.0, 1.5), late, 0.25) < 8.6, "2.5 times 3.4 s, which fade"
    quiet_since = [*late, *(8.6 + number * 0.5 for number in range(100))]
    assert 4.0 < lost_after_s(Liveness(4.0, 1.5), quiet_since, 0.25) < 4.3


def test_who_looks_late_itself_gives_others_longer() -> None:
    assert 4.0 < lost_after_s(Liveness(4.0, 1.5), [0.0, 0.5, 1.0], 1.0) < 5.1
    assert 4.1 < lost_after_s(Liveness(4.0, 2.0), [0.0, 0.5, 1.0], 1.9) < 7.8
    assert lost_after_s(Liveness(4.0, 2.0), [0.0, 0.5, 1.0], 1.9) > 3 * 1.9


def test_no_delay_makes_a_peer_immortal() -> None:
    liveness = Liveness(4.0, 1.5)
    beats = [0.0]
    while beats[-1] < 200.0:
        beats.append(beats[-1] + 19.0)
        liveness.heard(["phone"], beats[-1])
    found = next(tenth / 4 for tenth in range(1000) if liveness.first_silent(beats[-1] + tenth / 4))
    assert found <= 20.3
