"""Asynchronous workers share links and the server: their price is what an independent simulation says."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from palmette.cost import looping
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.slow_workers import Resource, Worker, mean_step_s
from tests.cost.small import cluster, instance, link, node, phase, price, profile, source, times

WEIGHTS = 4.0


def behind_one_link(
    computes: list[float], bps: list[float], shared_bps: float, update_s: float, latency_s: float = 0.0
) -> tuple[Cluster, Profile, Phase]:
    """Workers on links of their own to a gateway, and the server behind one link that all share."""
    names = [f"w{k}" for k in range(len(computes))]
    links = [link(name, "gate", rate) for name, rate in zip(names, bps, strict=True)]
    nodes = {name: node(9) for name in names}
    where = cluster(*links, link("gate", "s", shared_bps, latency_s=latency_s), **nodes, gate=node(), s=node())
    layers = {name: times(1, each, 0.0, 0.0) for name, each in zip(names, computes, strict=True)}
    known = profile([(WEIGHTS, 1.0)], **layers, s=times(1, 0.0, 0.0, update_s))
    parts = [source(name, 1, name) for name in names] + [instance(name, 1, 1, name) for name in names]
    return where, known, phase(*parts, sync="async", server="s")


def slow_mean_s(
    computes: list[float], bps: list[float], shared_bps: float, update_s: float, latency_s: float = 0.0
) -> float:
    capacity: dict[Resource, Fraction] = {}
    for way in ("down", "up"):
        capacity["gate", way] = Fraction(shared_bps)
        capacity |= {(f"w{k}", way): Fraction(rate) for k, rate in enumerate(bps)}
    workers = [
        Worker(
            [("gate", "down"), (f"w{k}", "down")],
            [(f"w{k}", "up"), ("gate", "up")],
            Fraction(each),
            Fraction(8 * WEIGHTS),
            Fraction(latency_s),
        )
        for k, each in enumerate(computes)
    ]
    return float(mean_step_s(workers, capacity, Fraction(update_s), looping.ROUNDS))


def test_four_workers_behind_one_link_share_it() -> None:
    # Each way takes 4 bytes × 4 workers at a byte a second; in step, a round is pull, compute, push.
    found = price(*behind_one_link([3.0] * 4, [800.0] * 4, 8.0, 0.0))
    assert found.iteration_s == pytest.approx((16 + 3 + 16) / 4)


def test_workers_wait_for_the_updates_of_the_server() -> None:
    found = price(*behind_one_link([1.0] * 3, [8e9] * 3, 8e9, 5.0))
    assert found.iteration_s == pytest.approx(5.0, rel=1e-6)


def test_workers_that_share_nothing_are_not_slowed_down() -> None:
    names = ["a", "b"]
    where = cluster(link("a", "s"), link("b", "s"), a=node(9), b=node(9), s=node())
    known = profile([(WEIGHTS, 1.0)], **{name: times(1, 3.0, 0.0, 0.0) for name in names}, s=times(1, 0.0, 0.0, 0.0))
    parts = [source(name, 1, name) for name in names] + [instance(name, 1, 1, name) for name in names]
    found = price(where, known, phase(*parts, sync="async", server="s"))
    assert found.iteration_s == pytest.approx((4 + 3 + 4) / 2)


@pytest.mark.parametrize("seed", range(12))
def test_unlike_workers_take_what_an_independent_simulation_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looping, "have_settled", lambda *_: True)
    rng = random.Random(seed)
    many = rng.randint(2, 5)
    computes = [rng.randint(1, 40) / 4 for _ in range(many)]
    bps = [float(rng.choice([4, 8, 16, 800])) for _ in range(many)]
    world = (computes, bps, float(rng.choice([4, 8, 32])), rng.choice([0.0, 0.25, 1.5]), rng.choice([0.0, 0.5]))
    assert price(*behind_one_link(*world)).iteration_s == pytest.approx(slow_mean_s(*world), rel=1e-6)


def test_workers_that_drift_are_played_until_they_have_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first they take turns on the link; the slower one falls behind, until both pull and push side by side."""
    world = ([5.0, 5.25], [800.0, 800.0], 8.0, 1.0)
    found, settled = price(*behind_one_link(*world)).iteration_s, (4 + 4 + 5.25 + 1.0 + 4 + 4 - 1.75) / 2
    assert found == pytest.approx(settled, rel=0.01)
    monkeypatch.setattr(looping, "have_settled", lambda *_: True)
    assert price(*behind_one_link(*world)).iteration_s < 0.75 * settled, "the first steps are not those that last"
