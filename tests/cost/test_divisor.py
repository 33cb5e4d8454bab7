"""What it costs that several roots find the divisor of their loss together: two latencies and two numbers."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import iteration
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.steps import Kind
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, profile, source, times

THREE = profile([(0.0, 0.0)] * 3, a=times(3), b=times(3), c=times(3))
SLOW = cluster(
    link("a", "b", 64.0, latency_s=2.0), link("b", "c", 64.0, latency_s=3.0), a=node(10), b=node(10), c=node(10)
)
VARIES = OptimizerCost(divisor_varies=True)


def roots(places: str, **more: object) -> Phase:
    parts = [(source(at, 1, f"{at}{k}"), instance(f"{at}{k}", 1, 3, at, cpu_share=0.5)) for k, at in enumerate(places)]
    return phase(*(made for made, _ in parts), *(made for _, made in parts), **more)


def extra_s(found: Phase) -> float:
    plain, varied = (Evaluator(THREE, SLOW, cost).price(found).iteration_s for cost in (OptimizerCost(), VARIES))
    return varied - plain


def kinds(found: Phase) -> list[tuple[str, str | None]]:
    known = Evaluator(THREE, SLOW)
    steps = iteration(found, known.sizes(), known.routes, optimizer=VARIES).steps
    return [(step.node, step.to) for step in steps if step.kind in (Kind.COUNT, Kind.DIVISOR, Kind.TOTAL_DIVISOR)]


def test_the_divisor_takes_a_message_there_and_one_back() -> None:
    """Eight bytes at 64 bit/s take a second, each message the latency, and roots wait for all others' forward."""
    assert extra_s(roots("ab")) == pytest.approx(2 * (1 + 2))
    assert extra_s(roots("bac")) == pytest.approx(2 * (1 + 3))


def test_the_roots_of_a_node_send_one_number() -> None:
    assert kinds(roots("abb")) == [("b", "a"), ("a", None), ("a", "b")]


def test_roots_of_one_node_find_it_at_no_cost() -> None:
    assert kinds(roots("aa")) == [("a", None)]
    assert extra_s(roots("aa")) == 0


def test_one_root_knows_it() -> None:
    chain = phase(source("a", 1, "I"), instance("I", 1, 2, "a", "J"), instance("J", 3, 3, "b"))
    assert kinds(chain) == []


@pytest.mark.parametrize("sync", ["epoch", "async"])
def test_other_kinds_of_sync_have_a_loss_for_each_tree(sync: str) -> None:
    assert extra_s(roots("ab", sync=sync)) == 0
