"""The clock plays the trace of a link from any moment; plans can be made for what holds most of the time."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

import palmette as pt
from palmette.cost.evaluate import Evaluator
from palmette.cost.moments import moments, successive_s
from palmette.spec.cluster import Cluster
from palmette.spec.profile import Profile
from tests.cost.small import cluster, instance, node, phase, profile, source, times

WHOLE = phase(source("a", 1, "B"), instance("B", 1, 1, "b"))


def world(time_s: list[float], down_bps: list[float], size: float = 10.0) -> tuple[Profile, Cluster]:
    trace = {"time_s": time_s, "down_bps": down_bps}
    where = cluster({"between": ["a", "b"], "bandwidth_trace": trace}, a=node(9), b=node())
    return profile([(0.0, 1.0)], size, a=times(1, 9.0, 9.0, 9.0), b=times(1, 1.0, 0.0, 0.0)), where


def carried_s(time_s: list[float], rates: list[float], bits: float, moment_s: float) -> float:
    """Second by second in exact fractions: how long bits take from a moment on."""
    moments_s, left, at = [Fraction(each) for each in time_s], Fraction(bits), Fraction(moment_s)
    length = moments_s[-1] + (moments_s[-1] - moments_s[-2])
    while True:
        within = at % length
        row = max(k for k, each in enumerate(moments_s) if each <= within)
        until = (moments_s[row + 1] if row + 1 < len(moments_s) else length) - within
        rate = Fraction(rates[row])
        if rate * until >= left:
            return float(at + left / rate - Fraction(moment_s))
        left -= rate * until
        at += until


@pytest.mark.parametrize("seed", range(8))
def test_a_transfer_takes_what_the_trace_says_from_that_moment(seed: int) -> None:
    rng = random.Random(seed)
    time_s = [0.0, *sorted(rng.sample([k / 2 for k in range(1, 40)], 6))]
    rates = [float(rng.choice([0, 1, 4, 16, 64])) for _ in time_s[1:]] + [8.0]
    for moment_s in (0.0, rng.uniform(0, 20), rng.uniform(20, 200)):
        found = Evaluator(*world(time_s, rates), "sgd", moment_s=moment_s).price(WHOLE)
        assert found.iteration_s == pytest.approx(1 + carried_s(time_s, rates, 80.0, moment_s), rel=1e-9)


@pytest.mark.parametrize("row_s", [0.1, 0.7, 1.3])
def test_what_has_left_when_a_link_goes_silent_does_not_wait_for_it(row_s: float) -> None:
    for rows in range(1, 25):  # every other one is silent
        found = Evaluator(*world([0.0, row_s], [80.0 / rows / row_s, 0.0]), "sgd", moment_s=0.0).price(WHOLE)
        assert found.iteration_s == pytest.approx(1 + (2 * rows - 1) * row_s, rel=1e-9), rows


def test_iterations_follow_one_another_over_a_trace() -> None:
    prices = Evaluator(*world([0.0, 10.0], [80.0, 8.0]), "sgd")  # 1 s or 10 s to send, and 1 s to compute
    assert successive_s(WHOLE, prices, 7) == pytest.approx([2, 2, 2, 2, 2, 11, 2])


SPLIT = phase(source("a", 1, "A"), instance("A", 1, 1, "a", "B"), instance("B", 2, 2, "b"))


@pytest.mark.parametrize("seed", range(8))
def test_a_trace_goes_on_while_nothing_is_carried(seed: int) -> None:
    rng = random.Random(seed)
    time_s = [0.0, *sorted(rng.sample([k / 2 for k in range(1, 40)], 6))]
    rates = [float(rng.choice([0, 1, 4, 16, 64])) for _ in time_s[1:]] + [8.0]
    _, where = world(time_s, rates)
    moment_s, forward_s, backward_s = (rng.uniform(0, 300) for _ in range(3))
    known = profile([(0.0, 10.0)] * 2, a=times(2, forward_s, backward_s, 0.0), b=times(2, forward_s, backward_s, 0.0))
    there_s = forward_s + carried_s(time_s, rates, 80.0, moment_s + forward_s)
    back_s = there_s + forward_s + backward_s
    expected_s = back_s + carried_s(time_s, rates, 80.0, moment_s + back_s) + backward_s
    found = Evaluator(known, where, "sgd", moment_s=moment_s).price(SPLIT)
    assert found.iteration_s == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize("age_s", [1e7, 1e12, 1e18])
def test_ages_without_a_transfer_are_not_played_row_by_row(age_s: float) -> None:
    _, where = world([0.0, 1.0], [24.0, 8.0])
    known = profile([(0.0, 10.0)] * 2, a=times(2, age_s, 0.0, 0.0), b=times(2, 1.0, 0.0, 0.0))
    found = Evaluator(known, where, "sgd", moment_s=0.5).price(SPLIT)
    assert found.iteration_s == pytest.approx(age_s + 1 + 2 * 80 / 16, abs=2 + age_s * 1e-12)


def test_without_a_moment_the_mean_counts() -> None:
    assert Evaluator(*world([0.0, 1.0], [24.0, 8.0])).price(WHOLE).iteration_s == pytest.approx(1 + 80 / 16)


def test_how_much_an_iteration_varies() -> None:
    # A second of computing beside 80 bits: 2 s at 80 bit/s, 11 s at 8 bit/s, and the rate changes every 1,000 s.
    found = moments(WHOLE, Evaluator(*world([0.0, 1000.0], [80.0, 8.0])))
    assert (found["iteration_s_0.1"], found["iteration_s_0.9"]) == pytest.approx((2.0, 11.0))
    assert found["mean_iteration_s"] == pytest.approx(6.5, rel=0.05)


def test_workers_that_take_turns_see_the_trace_too() -> None:
    both = phase(
        source("a", 1, "A"), source("a", 1, "B"), instance("A", 1, 1, "a"), instance("B", 1, 1, "b"),
        sync="async", server="b",
    )  # fmt: skip
    known, where = world([0.0, 1.0], [24.0, 8.0])
    assert Evaluator(known, where, "sgd", moment_s=0.5).price(both).iteration_s > 0


@pytest.mark.slow
def test_a_robust_plan_is_made_for_what_holds() -> None:
    # Fast in the mean, so that all goes to b; in nine of ten moments it is better to stay on a.
    known, where = world([0.0, 1.0, 10.0, 11.0], [1e4, 1.0, 1e4, 1.0], 1000.0)
    mean = pt.plan("auto", profile=known, cluster=where, batch=1)
    robust = pt.plan("auto", profile=known, cluster=where, batch=1, robust=0.9)
    assert {each.node for each in mean.phases[0].instances} == {"b"}
    assert {each.node for each in robust.phases[0].instances} == {"a"}
    assert robust.asked is not None
    assert robust.asked.robust == 0.9
    assert "in eight of ten moments" in mean.decision["why"]
    assert mean.decision["moments"]["iteration_s_0.9"] >= mean.decision["moments"]["iteration_s_0.1"]


def test_a_share_that_is_none_is_refused() -> None:
    known, where = world([0.0], [8.0])
    with pytest.raises(pt.InputError, match="robust"):
        pt.plan("auto", profile=known, cluster=where, batch=1, robust=1.5)


def test_an_estimate_begins_at_a_moment() -> None:
    known, where = world([0.0, 1000.0], [80.0, 8.0])
    plan = pt.plan("all-edge", profile=known, cluster=edge(where), batch=1)
    found = [pt.estimate(plan, moment_s=moment_s).iteration_s for moment_s in (0.0, 1000.0)]
    assert found == pytest.approx([2.0, 11.0])


def edge(where: Cluster) -> Cluster:
    """The same, with b as an edge server."""
    return where.model_copy(
        update={"nodes": {**where.nodes, "b": where.nodes["b"].model_copy(update={"tier": "edge"})}}
    )
