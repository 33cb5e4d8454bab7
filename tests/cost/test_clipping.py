"""What it costs to find the norm of all gradients: two latencies and two numbers, and every weight counts once."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import iteration
from palmette.cost.optimizer import OptimizerCost
from palmette.cost.steps import Kind
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, profile, source, times

LAYERS = [(10.0, 0.0), (0.0, 0.0), (40.0, 0.0)]
THREE = profile(LAYERS, a=times(3), b=times(3), c=times(3))
SLOW = cluster(
    link("a", "b", 64.0, latency_s=2.0), link("b", "c", 64.0, latency_s=2.0), a=node(10), b=node(10), c=node(10)
)
CHAIN = phase(source("a", 1, "I"), instance("I", 1, 2, "a", "J"), instance("J", 3, 3, "b"))


def priced(found: Phase, *, clips: bool) -> float:
    return Evaluator(THREE, SLOW, OptimizerCost(clips_norm=clips)).price(found).iteration_s


def counted(found: Phase) -> list[tuple[str, tuple[tuple[int, int], ...]]]:
    """The nodes that add up squares, and of which layers."""
    known = Evaluator(THREE, SLOW)
    steps = iteration(found, known.sizes(), known.routes, optimizer=OptimizerCost(clips_norm=True)).steps
    return [(step.node, step.layers) for step in steps if step.kind in (Kind.SQUARES, Kind.NORM)]


def test_the_norm_takes_a_message_there_and_one_back() -> None:
    """Eight bytes at 64 bit/s take a second, and each message the latency of two; before that, all wait for node a."""
    assert priced(CHAIN, clips=True) - priced(CHAIN, clips=False) == pytest.approx(2 * (1 + 2))


def test_one_node_finds_the_norm_at_no_cost() -> None:
    alone = phase(source("a", 1, "I"), instance("I", 1, 3, "a"))
    assert priced(alone, clips=True) == priced(alone, clips=False)
    assert counted(alone) == [("a", ((1, 1), (3, 3)))]


def test_replicas_are_counted_once() -> None:
    parts = [*(source(at, 1, at) for at in "abc"), *(instance(at, 1, 3, at) for at in "abc")]
    assert counted(phase(*parts)) == [("a", ((1, 1), (3, 3)))]
    assert counted(phase(*parts, meet="c")) == [("a", ((1, 1), (3, 3)))]


def test_layers_without_weights_are_left_out() -> None:
    thin = phase(
        source("a", 1, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 2, "b", "K"), instance("K", 3, 3, "c")
    )
    assert counted(thin) == [("a", ((1, 1),)), ("c", ((3, 3),))]


def test_a_parameter_server_clips_where_it_updates() -> None:
    found = phase(source("a", 1, "I"), instance("I", 1, 2, "a", "J"), instance("J", 3, 3, "b"), sync="async")
    assert priced(found, clips=True) == priced(found, clips=False)


def test_trees_that_train_apart_have_a_norm_each() -> None:
    """The one that is cut sends two messages; the other finds its norm alone, as it updates."""
    two = phase(
        *(source("a", 1, "I"), source("c", 1, "K")),
        *(instance("I", 1, 2, "a", "J"), instance("J", 3, 3, "b"), instance("K", 1, 3, "c")),
        sync="epoch",
    )
    assert priced(two, clips=True) - priced(two, clips=False) == pytest.approx(2 * (1 + 2))
    assert counted(two) == [("a", ((1, 1),)), ("b", ((3, 3),))]
