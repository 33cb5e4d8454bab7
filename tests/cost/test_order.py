"""Microbatches in turns, machines that do one thing at a time, rings, and messages that are too small for a link."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.random_trees import random_case
from tests.cost.small import Fields, cluster, instance, link, node, phase, price, profile, source, times

FAST = 8e12


def pipeline(microbatches: int, stages: str = "abc", **more: object) -> Phase:
    """A chain over the stages, a layer on each, for every microbatch of one sample."""
    parts: list[Fields] = []
    for m in range(microbatches):
        parts.append(source(stages[0], 1, f"{stages[0]}{m}"))
        for k, name in enumerate(stages, 1):
            into = f"{stages[k]}{m}" if k < len(stages) else None
            parts.append(instance(f"{name}{m}", k, k, name, into))
    return phase(*parts, **more)


def world(layers: int = 3, *, bps: float = FAST, weights: float = 0.0, **more: object) -> tuple[Cluster, Profile]:
    names = "abcd"[:layers]
    links = [link(one, other, bps) for k, one in enumerate(names) for other in names[k + 1 :]]
    nodes = {name: node(99, **more) for name in names}
    known = {name: times(layers, 1.0, 2.0, 0.0) for name in names}
    return cluster(*links, **nodes), profile([(weights, 1.0, 100.0)] * layers, **known)


def calls_on(name: str, found: object) -> str:
    ((_, made, played),) = found.played  # type: ignore[attr-defined]
    own = [
        (start, step.kind.value[0].upper())
        for step, start in zip(made.steps, played.start_s, strict=True)
        if step.node == name and step.to is None and step.kind.value in ("forward", "backward")
    ]
    return "".join(what for _, what in sorted(own))


def test_one_forward_one_backward_in_turns() -> None:
    found = price(*world(), pipeline(5, order="1f1b"))
    assert calls_on("c", found) == "FBFBFBFBFB"
    assert calls_on("b", found) == "FFBFBFBFBB"
    assert calls_on("a", found) == "FFFBFBFBBB"


def test_turns_take_the_time_of_a_pipeline_and_less_memory() -> None:
    many, stages = 6, 3
    turns, fifo = (price(*world(), pipeline(many, order=order)) for order in ("1f1b", "fifo"))
    assert turns.iteration_s == pytest.approx((many + stages - 1) * 3, rel=1e-6)
    assert turns.iteration_s <= fifo.iteration_s * (1 + 1e-6)
    known = Evaluator(*reversed(world()))  # type: ignore[arg-type]
    held = known.peak_bytes(pipeline(many, order="1f1b"))
    assert [held[name] for name in "abc"] == [300.0, 200.0, 100.0]
    assert known.peak_bytes(pipeline(many))["a"] == 600.0


def test_a_batch_norm_over_the_whole_batch_leaves_no_turns() -> None:
    where, known = world()
    layers = tuple(layer.model_copy(update={"batch_norm_channels": (2,)}) for layer in known.layers)
    normed = known.model_copy(update={"layers": layers})
    assert price(where, normed, pipeline(3, order="1f1b", batch_norm="whole")).iteration_s > 0


def test_a_blocking_machine_computes_or_sends() -> None:
    # A byte a second: the last stage receives for 1 s, computes for 3 s, sends for 1 s, for each of the microbatches.
    many = 8
    alone = price(*world(2, bps=8.0, blocking=True), pipeline(many, "ab", order="1f1b"))
    overlapped = price(*world(2, bps=8.0), pipeline(many, "ab", order="1f1b"))
    assert alone.iteration_s == pytest.approx(1 + many * 5 + 2)
    assert overlapped.iteration_s == pytest.approx(35)


def test_transfers_of_blocking_machines_take_turns_at_both_ends() -> None:
    where = cluster(link("a", "c", 8.0), link("b", "c", 8.0), a=node(9), b=node(9), c=node(blocking=True))
    known = profile([(0.0, 4.0), (0.0, 1.0)], **{name: times(2, 1.0, 0.0, 0.0) for name in "abc"})
    both = phase(
        source("a", 1, "A"),
        source("b", 1, "B"),
        instance("A", 1, 1, "a", "C"),
        instance("B", 1, 1, "b", "C"),
        instance("C", 2, 2, "c"),
    )
    found = price(where, known, both)
    assert found.iteration_s == pytest.approx(
        1 + 4 + 4 + 2 + 4 + 4
    )  # C computes for both samples; gradients are as large


@pytest.mark.parametrize("many", [2, 3, 4])
def test_a_ring_carries_twice_all_parts_but_one(many: int) -> None:
    names = "abcd"[:many]
    links = [link(one, other, 8.0) for k, one in enumerate(names) for other in names[k + 1 :]]
    where = cluster(*links, **{name: node(9) for name in names})
    known = profile([(12.0, 1.0)], **{name: times(1, 1.0, 2.0, 0.5) for name in names})
    parts = [source(name, 1, name) for name in names] + [instance(name, 1, 1, name) for name in names]
    found = price(where, known, phase(*parts, averaging="ring"))
    assert found.iteration_s == pytest.approx(3 + 2 * (many - 1) * 12 / many + 0.5)
    assert found.nodes["a"].sent_bytes == pytest.approx(2 * (many - 1) * 12 / many)


def test_microbatches_on_one_node_exchange_their_gradients_once() -> None:
    names = "ab"
    where = cluster(link("a", "b", 8.0), **{name: node(9) for name in names})
    known = profile([(12.0, 1.0)], **{name: times(1, 1.0, 2.0, 0.5) for name in names})
    parts = [
        part for name in names for m in "12" for part in (source(name, 1, name + m), instance(name + m, 1, 1, name))
    ]
    found = price(where, known, phase(*parts, averaging="ring", order="1f1b"))
    assert found.iteration_s == pytest.approx(6 + 12 + 0.5)


def test_small_messages_reach_less_of_the_bandwidth() -> None:
    sizes = [{"size_bytes": 1.0, "bandwidth_bps": 8.0}, {"size_bytes": 16.0, "bandwidth_bps": 40.0}]
    where = cluster(link("a", "b", 80.0, by_size=sizes), a=node(9), b=node())
    known = profile([(0.0, 1.0)], 4.0, **{name: times(1, 0.0, 0.0, 0.0) for name in "ab"})
    found = price(where, known, phase(source("a", 1, "B"), instance("B", 1, 1, "b")))
    assert found.iteration_s == pytest.approx(4 * 8 / 24)  # halfway between the sizes, by their logarithms
    found = price(where, known, phase(source("a", 8, "B"), instance("B", 1, 1, "b")))
    assert found.iteration_s == pytest.approx(32 * 8 / 40)


@pytest.mark.parametrize("seed", range(60))
def test_any_tree_can_be_played_in_turns(seed: int) -> None:
    tree, known, where = random_case(seed)
    turns, prices = tree.model_copy(update={"order": "1f1b"}), Evaluator(known, where)
    assert prices.price(turns).iteration_s > 0
    held = prices.peak_bytes(tree)
    assert all(size <= held[name] for name, size in prices.peak_bytes(turns).items())


def test_microbatches_that_merge_are_taken_as_they_come() -> None:
    parts = [source("a", 1, f"a{m}") for m in range(3)] + [instance(f"a{m}", 1, 1, "a", "b") for m in range(3)]
    merging = phase(*parts, instance("b", 2, 2, "b"), order="1f1b")
    found = price(*world(2), merging)
    assert calls_on("a", found) == "FFFBBB"
