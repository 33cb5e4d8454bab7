"""Bytes by hand: weights, gradients, optimizer state and activations."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.optimizer import OptimizerCost
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, profile, source

# (weights, output, activations); the third keeps its output, nothing else being known
LAYERS = [(10.0, 1.0, 3.0), (100.0, 1.0, 5.0), (1000.0, 7.0)]
PAIR = cluster(link("a", "b"), a=node(9), b=node(9))


def peaks(found: Phase, optimizer: str | OptimizerCost = "sgd") -> dict[str, float]:
    return Evaluator(profile(LAYERS), PAIR, optimizer).peak_bytes(found)


@pytest.mark.parametrize(("optimizer", "copies"), [("sgd", 2), ("momentum", 3), ("Adam", 4), ("rmsprop", 3)])
def test_weights_gradients_and_state_plus_activations_of_its_samples(optimizer: str, copies: int) -> None:
    whole = phase(source("a", 4, "I"), instance("I", 1, 3, "a"))
    assert peaks(whole, optimizer) == {"a": copies * 1110 + 4 * (3 + 5 + 7)}


def test_each_node_holds_its_own_instances() -> None:
    split = phase(source("a", 4, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 3, "b"))
    assert peaks(split) == {"a": 2 * 10 + 4 * 3, "b": 2 * 1100 + 4 * 12}


def test_replicas_on_one_node_share_all_but_their_activations_and_gradients_that_wait() -> None:
    # I and J both hold layer 1, of which the gradients of one wait for the other's; J holds 2 as well.
    shared = phase(
        source("a", 1, "I"),
        source("a", 2, "J"),
        instance("I", 1, 1, "a", "K"),
        instance("J", 1, 2, "a", "L"),
        instance("K", 2, 2, "b", "L"),
        instance("L", 3, 3, "b"),
    )
    assert peaks(shared) == {"a": 2 * 110 + 10 + 1 * 3 + 2 * 8, "b": 2 * 1100 + 1 * 5 + 3 * 7}


@pytest.mark.parametrize(
    ("more", "optimizer", "sets"),
    [
        ({"order": "1f1b"}, OptimizerCost(), 2),  # a sum, and what a backward pass has just made
        ({}, OptimizerCost(), 4),  # the first may come last, and all others wait
        ({"order": "1f1b"}, OptimizerCost(divisor_varies=True), 4),  # which leaves no turns
        ({"order": "1f1b"}, OptimizerCost(accumulate=2), 4),  # each has a sum of its own
    ],
)
def test_gradients_of_microbatches_count_as_often_as_they_may_wait(
    more: dict[str, str], optimizer: OptimizerCost, sets: int
) -> None:
    """Of four on one node; a fifth is elsewhere, so that gradients are exchanged."""
    nodes = {"I": "a", "J": "a", "K": "a", "L": "a", "M": "b"}
    parts = [source("a", 1, name) for name in nodes] + [instance(name, 1, 3, at) for name, at in nodes.items()]
    flying = 1 if "order" in more and not optimizer.divisor_varies else 4
    assert peaks(phase(*parts, **more), optimizer) == {"a": (1 + sets) * 1110 + flying * 15, "b": 2 * 1110 + 15}


def test_turns_that_are_not_in_the_order_of_the_plan_leave_gradients_waiting() -> None:
    """Roots in one order, what feeds them in the other: turns are those of the roots, sums those of the plan."""
    sources, roots = [source("a", 1, f"J{k}") for k in (1, 2, 3)], [instance(f"K{k}", 2, 3, "b") for k in (1, 2, 3)]
    found = []
    for listed in ((1, 2, 3), (3, 2, 1)):
        feeding = [instance(f"J{k}", 1, 1, "a", f"K{k}") for k in listed]
        found.append(peaks(phase(*sources, *feeding, *roots, order="1f1b"))["a"])
    assert found == [(1 + 2) * 10 + 2 * 3, (1 + 3) * 10 + 2 * 3]


def test_a_chain_that_returns_holds_only_the_layers_it_has() -> None:
    there_and_back = phase(
        source("a", 1, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 2, "b", "K"), instance("K", 3, 3, "a")
    )
    assert peaks(there_and_back) == {"a": 2 * 1010 + 3 + 7, "b": 2 * 100 + 5}


@pytest.mark.parametrize("sync", ["epoch", "async"])
def test_a_server_holds_the_whole_model(sync: str) -> None:
    found = phase(source("a", 1, "I"), instance("I", 1, 3, "a"), sync=sync, server="b")
    assert peaks(found) == {"a": 2 * 1110 + 15, "b": 2 * 1110}


def test_a_source_alone_needs_no_memory() -> None:
    assert "a" not in peaks(phase(source("a", 1, "I"), instance("I", 1, 3, "b")))


def test_replicas_that_do_not_share_their_weights_each_count_them() -> None:
    parts = (source("a", 1, "I"), source("a", 1, "J"), instance("I", 1, 3, "a"), instance("J", 1, 3, "a"))
    shared, apart = (peaks(phase(*parts, sync=sync))["a"] for sync in ("step", "epoch"))
    assert shared == 3 * 1110 + 2 * 15  # weights, and the gradients of both
    assert apart == 3 * 2 * 1110 + 2 * 15  # both instances and the server


def test_layers_before_all_that_learn_keep_nothing_but_while_they_compute() -> None:
    known = profile(LAYERS)
    frozen = {"gradient_bytes": 0.0, "trainable_bytes": 0.0}
    layers = tuple(layer.model_copy(update=frozen) if k < 2 else layer for k, layer in enumerate(known.layers))
    prices = Evaluator(known.model_copy(update={"layers": layers}), PAIR)
    whole = phase(source("a", 4, "I"), instance("I", 1, 3, "a"))
    assert prices.peak_bytes(whole) == {"a": 1110 + 1000 + 4 * 7}
    split = phase(source("a", 4, "I"), instance("I", 1, 2, "a", "J"), instance("J", 3, 3, "b"))
    assert prices.peak_bytes(split)["a"] == 110 + 4 * 5
