"""A change of plan pays for itself: lasting changes of a link are followed, short ones are not."""

from __future__ import annotations

import math

import pytest

import palmette as pt
from palmette.control.adapt.link_history import LinkHistory, with_measured_bandwidth
from palmette.control.adapt.pauses import PauseMeter
from palmette.control.adapt.switching import PAUSE_S, THERE_AND_BACK, PlanSwitching
from palmette.cost.evaluate import Evaluator
from palmette.cost.handover import change_price
from palmette.plan.core.make_plan import replan
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan
from tests.plan.problems import link, profile, three_tiers

BATCH, THRESHOLD, SLOW = 12, 0.5, 10.0


def where() -> Cluster:
    links = (link("phone", "server", 2.0), link("server", "cloud", 2.0))
    return three_tiers().model_copy(update={"links": links})


def made() -> Plan:
    return pt.plan("jointdnn+", profile=profile(4), cluster=where(), batch=BATCH)


class Playing:
    """Iterations of whatever plan is in use, over links that are so many times slower."""

    def __init__(self, iterations: int | None = None) -> None:
        self.first = self.plan = made()
        self.prices = Evaluator(profile(4), where())
        self.asked: list[Cluster] = []
        self.switching = PlanSwitching(self.plan, self.prices, threshold=THRESHOLD, planner=self._plan)
        if iterations is not None:
            self.switching.expect(iterations)
        self.now_s, self.changes = 0.0, 0

    def _plan(self, plan: Plan, cluster: Cluster, reason: str) -> Plan:
        self.asked.append(cluster)
        return replan(plan, cluster)

    def play(self, slower: float, many: int) -> None:
        shown = dict.fromkeys(range(4), slower)
        prices = Evaluator(profile(4), with_measured_bandwidth(where(), shown))
        for _ in range(many):
            price = prices.price(self.plan.phases[0])
            self.now_s += price.iteration_s
            used = price.nodes["phone"].sent_bytes > 0
            self.switching.observe(shown if used else {}, self.now_s)
            found = self.switching()
            if found is not None:
                self.plan, self.changes = found, self.changes + 1


def test_links_as_declared_change_nothing() -> None:
    playing = Playing()
    playing.play(1.0, 200)
    assert (playing.changes, playing.asked) == (0, [])


def test_a_lasting_change_is_followed_once() -> None:
    playing = Playing()
    playing.play(1.0, 20)
    playing.play(SLOW, 100)
    assert playing.changes == 1
    assert playing.plan.phases == replan(playing.first, playing.asked[-1]).phases
    assert playing.plan.phases != playing.first.phases


def test_one_outage_is_no_reason() -> None:
    playing = Playing()
    playing.play(1.0, 50)
    playing.play(1e4, 1)
    playing.play(1.0, 50)
    assert playing.changes == 0


def test_a_change_waits_until_it_has_been_earned_twice_by_iterations_that_were_lost() -> None:
    playing = Playing()
    slow = Evaluator(profile(4), with_measured_bandwidth(where(), dict.fromkeys(range(4), SLOW)))
    other = replan(playing.first, slow.cluster)
    before, after = playing.first.phases[0], other.phases[0]
    saved_s = slow.price(before).iteration_s - slow.price(after).iteration_s
    needed_s = THERE_AND_BACK * (change_price(before, after, slow).time_s + PAUSE_S)
    playing.play(SLOW, max(1, math.floor(needed_s / saved_s) - 1))
    assert playing.changes == 0


def test_a_link_that_becomes_50_times_slower_is_left_at_once() -> None:
    playing = Playing(iterations=100)
    playing.play(1.0, 20)
    playing.play(50.0, 4)
    assert playing.changes == 1


def test_the_shorter_the_pause_the_sooner_the_change() -> None:
    def slow_iterations(pause_s: float) -> int:
        playing = Playing(iterations=2000)
        playing.switching.pause_s = pause_s
        playing.play(1.0, 20)
        many = 0
        while not playing.changes:
            playing.play(SLOW, 1)
            many += 1
        return many

    assert slow_iterations(0.1) < slow_iterations(2.0) < slow_iterations(40.0)


def test_just_before_the_end_nothing_is_changed_any_more() -> None:
    def changes(slow: int, iterations: int) -> int:
        playing = Playing(iterations)
        playing.switching.pause_s = 40.0
        playing.play(1.0, 20)
        playing.play(SLOW, slow)
        return playing.changes

    first = next(many for many in range(1, 200) if changes(many, 2000))
    assert changes(first, 20 + first) == 0


def test_rates_that_change_all_the_time_are_not_followed() -> None:
    playing = Playing(iterations=300)
    for _ in range(50):
        playing.play(SLOW, 1)
        playing.play(1.0, 5)
    assert playing.changes <= 1


def test_a_pause_is_measured_from_the_last_iteration_to_the_first() -> None:
    now_s = 100.0
    pauses = PauseMeter(10.0, lambda: now_s)
    now_s = 107.0
    pauses.hear([{"start_s": 0.0, "end_s": 1.0}], dilation=2.0)
    assert pauses.pause_s == pytest.approx(2.5)  # 7 s at half speed, of which the iteration took 1 s
    now_s = 110.0
    pauses.hear([{"start_s": 1.0, "end_s": 2.0}], dilation=2.0)
    assert pauses.pause_s == pytest.approx(2.5)
    pauses.stop()
    now_s = 116.0
    pauses.hear([{"start_s": 0.0, "end_s": 1.0}], dilation=2.0)
    assert pauses.pause_s == pytest.approx(2.0)


def test_the_start_of_a_run_takes_longer_than_a_change() -> None:
    now_s = 0.0
    pauses = PauseMeter(2.0, lambda: now_s)
    now_s = 30.0
    pauses.hear([{"start_s": 0.0, "end_s": 1.0}], dilation=1.0)
    assert pauses.pause_s == 2.0
    pauses.stop()
    now_s = 36.0
    pauses.hear([{"start_s": 0.0, "end_s": 1.0}], dilation=1.0)
    assert pauses.pause_s == pytest.approx(5.0)


def test_nothing_is_said_before_the_first_iteration_of_another_plan() -> None:
    playing = Playing(iterations=100)
    playing.play(1.0, 20)
    for _ in range(4):
        playing.play(50.0, 1)
        if playing.changes:
            break
    assert playing.switching() is None


def test_rates_about_the_same_are_planned_for_once() -> None:
    playing = Playing()
    for slower in (1.9, 2.0, 2.1) * 30:
        playing.play(slower, 1)
    assert len(playing.asked) <= 1


def test_a_link_that_shows_nothing_is_tried_again() -> None:
    history = LinkHistory(1.5, declared_s=5.0)
    for second in range(10):
        history.observe({0: 1.0}, float(second))
    for second in range(10, 15):
        history.observe({0: 8.0}, float(second))
    assert history.recent[0] == history.believed(15.0)[0] == 8.0
    assert history.believed(19.0)[0] == 8.0  # slow since 9 s, seen last at 14 s
    assert history.believed(20.0)[0] == 1.0  # as declared
    assert history.mean[0] == pytest.approx((5 + 9 + 5) / (5 + 9 + 5 / 8))


def test_a_link_that_was_faster_than_declared_counts_as_its_mean() -> None:
    history = LinkHistory(1.5, declared_s=1.0)
    for second in range(1, 11):
        history.observe({0: 0.5}, float(second))
    history.observe({0: 4.0}, 11.0)
    assert history.believed(20.0)[0] == pytest.approx(history.mean[0])
    assert history.mean[0] < 1.0
