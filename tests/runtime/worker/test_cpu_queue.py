"""Turns at a node's CPU are those of the event clock, and padded calls last as long as they should."""

from __future__ import annotations

import random
import threading
import time

import pytest

from palmette.runtime.record.operations import MOST_LATE_S
from palmette.runtime.worker import cpu_queue
from palmette.runtime.worker.commands import Execute, SetPace
from palmette.runtime.worker.cpu_queue import CpuQueue, sleep_until
from palmette.runtime.worker.executor import Pace
from tests.cost.small import cluster, instance, node, phase, price, profile, source, times, timetable
from tests.runtime.rig import Rig, done, random_layers

SHORT_S = 0.05
# Threads of a busy machine are late now and then: the order must hold, the moments nearly.
LATE_S = 0.04
LOOK_S = 1e-6


def played(shares: list[float], limit: float = 1.0) -> list[float]:
    """When forward calls start that all come at once, by the event clock; in lengths of a call with the whole CPU."""
    many = len(shares)
    tree = phase(
        *(source("a", 1, f"w{k}") for k in range(many)),
        *(instance(f"w{k}", 1, 1, "a", cpu_share=share) for k, share in enumerate(shares)),
    )
    known = cluster(a=node(100, limits={"cpu_share": limit}))
    starts = timetable(price(known, profile([(0.0, 1.0)], a=times(1, 1.0, 100.0, 0.0)), tree))
    return [starts["forward", f"w{k}"][0] for k in range(many)]


def really(shares: list[float], limit: float = 1.0) -> list[float]:
    """The same with threads; in seconds."""
    cpu, starts = CpuQueue(limit), [0.0] * len(shares)
    began = time.monotonic()

    def call(k: int) -> None:
        with cpu.share(shares[k]):
            starts[k] = time.monotonic() - began
            time.sleep(SHORT_S / shares[k])

    threads = [threading.Thread(target=call, args=(k,)) for k in range(len(shares))]
    for thread in threads:
        thread.start()
        time.sleep(0.002)  # one after the other, as the list has them
    for thread in threads:
        thread.join()
    return starts


@pytest.mark.timing
@pytest.mark.parametrize(
    ("shares", "limit"),
    [
        ([1.0, 1.0, 1.0], 1.0),
        ([0.5, 0.5, 0.5], 1.0),  # two side by side, the third waits
        ([0.7, 0.7, 0.3], 1.0),  # the last would fit, but it is not its turn
        ([0.3, 0.4, 0.3, 0.6, 0.5, 0.4], 1.0),
        ([0.3, 0.3, 0.3], 0.6),
        ([1 / 3] * 4, 1.0),
    ],
)
def test_calls_take_turns_as_on_the_clock(shares: list[float], limit: float) -> None:
    expected = [start * SHORT_S for start in played(shares, limit)]
    for _ in range(5):
        found = really(shares, limit)
        late = max(abs(a - b) for a, b in zip(found, expected, strict=True))
        if late < LATE_S:
            break
    assert late < LATE_S


def test_places_that_were_taken_before_keep_their_order_whoever_comes_first() -> None:
    cpu, turns = CpuQueue(), []
    places = [cpu.queue() for _ in range(5)]

    def call(k: int) -> None:
        with cpu.share(1.0, places[k]):
            turns.append(k)

    threads = [threading.Thread(target=call, args=(k,)) for k in reversed(range(5))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert turns == list(range(5))


def test_calls_that_are_ready_at_once_run_in_the_order_of_the_plan() -> None:
    rig = Rig(random_layers(random.Random(1), 3), (5,))
    names = "pqrstu"
    feeds = [source("a", 2, name) for name in names]
    tree = phase(*feeds, *(instance(name, 1, 3, "a") for name in names))
    with rig.crew(tree, cluster(a=node(100))) as (crew, _):
        for number in range(5):
            crew.send("a", Execute(0, number, number))
            forward = [record for record in done(crew).records if record.op == "forward"]
            assert [r.instance for r in sorted(forward, key=lambda r: r.start_s)] == list(range(len(names)))


def test_never_more_than_the_limit_at_once() -> None:
    cpu, draw, lock = CpuQueue(), random.Random(1), threading.Lock()
    busy, most = 0.0, 0.0

    def call(share: float) -> None:
        nonlocal busy, most
        with cpu.share(share):
            with lock:
                busy += share
                most = max(most, busy)
            time.sleep(0.001)
            with lock:
                busy -= share

    shares = [draw.choice([0.1, 0.25, 0.5, 0.9, 1.0]) for _ in range(80)]
    threads = [threading.Thread(target=call, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 1 + 1e-6


def test_a_call_that_fails_gives_its_share_back() -> None:
    cpu = CpuQueue()
    with pytest.raises(ValueError, match="inside"), cpu.share(1.0):
        raise ValueError("inside")
    with cpu.share(1.0):
        pass


class LateClock:
    """A clock that only passes while somebody sleeps, or looks at it; sleeps end late."""

    def __init__(self, late_s: float) -> None:
        self.now_s, self._late_s = 100.0, late_s
        self.asleep_s: list[float] = []

    def monotonic(self) -> float:
        self.now_s += LOOK_S
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.asleep_s.append(seconds)
        self.now_s += seconds + self._late_s


@pytest.mark.parametrize("late_s", [0.0, 1e-4, 2.5e-4])
@pytest.mark.parametrize("wait_s", [1e-4, 0.01, 3.0])
def test_waiting_ends_at_the_moment_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, wait_s: float, late_s: float
) -> None:
    """However late a sleep ends, as long as it is by less than what is waited awake."""
    clock = LateClock(late_s)
    monkeypatch.setattr(cpu_queue, "time", clock)
    end_s = clock.now_s + wait_s
    sleep_until(end_s)
    assert 0 <= clock.now_s - end_s <= 2 * LOOK_S
    assert sum(clock.asleep_s) >= wait_s - 1e-3  # and not awake for all of it


def test_a_moment_that_has_passed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = LateClock(0.0)
    monkeypatch.setattr(cpu_queue, "time", clock)
    sleep_until(clock.now_s)
    assert clock.asleep_s == []


def test_padded_calls_last_as_long_as_they_should() -> None:
    """A call that starts late is due as if it had not, by MOST_LATE_S at most; none ends before it is due."""
    rig = Rig(random_layers(random.Random(1), 3), (5,))
    tree = phase(source("a", 4, "1"), instance("1", 1, 2, "a", "2"), instance("2", 3, 3, "a"))
    with rig.crew(tree, cluster(a=node(100))) as (crew, programs):
        calls = [o.number for o in programs["a"].operations if o.op in ("forward", "backward", "update")]
        seconds = {number: 0.01 + 0.003 * k for k, number in enumerate(calls)}
        crew.send("a", SetPace(0, Pace(seconds)))
        for number in range(12):
            crew.send("a", Execute(0, number, number))
            records = {record.number: record for record in done(crew).records}
            whole_s = max(r.end_s for r in records.values()) - min(r.start_s for r in records.values())
            assert whole_s >= sum(seconds.values())
            for each, wanted_s in seconds.items():
                record = records[each]
                assert record.late_s >= 0  # never too short
                due_to_start_s = record.end_s - record.late_s - wanted_s
                assert record.start_s - MOST_LATE_S - 1e-6 <= due_to_start_s <= record.start_s + 1e-6


@pytest.mark.timing
def test_calls_with_half_a_share_run_side_by_side_and_whole_ones_in_turn() -> None:
    rig = Rig(random_layers(random.Random(1), 2), (5,))
    known = cluster(a=node(100))
    for share, together in ((0.5, True), (1.0, False)):
        tree = phase(
            source("a", 4, "1"),
            source("a", 3, "2"),
            instance("1", 1, 2, "a", cpu_share=share),
            instance("2", 1, 2, "a", cpu_share=share),
        )
        with rig.crew(tree, known) as (crew, programs):
            forwards = [o.number for o in programs["a"].operations if o.op == "forward"]
            crew.send("a", SetPace(0, Pace(dict.fromkeys(forwards, 0.1))))
            crew.send("a", Execute(0, 0, 0))
            spans = [(r.start_s, r.end_s) for r in done(crew).records if r.op == "forward"]
            (first, first_end), (second, _) = sorted(spans)
            assert (second < first_end - 0.05) == together
            assert first <= second
