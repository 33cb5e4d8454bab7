"""Microbatches in turns, machines that do one thing at a time, rings, and messages that are too small for a link."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.order import takes_turns
from palmette.cost.steps import Kind
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


LETTERS = {Kind.FORWARD: "F", Kind.BACKWARD: "B", Kind.BACKWARD_INPUT: "B", Kind.BACKWARD_WEIGHTS: "W"}


def calls_on(name: str, found: object) -> str:
    ((_, made, played),) = found.played  # type: ignore[attr-defined]
    own = [
        (start, LETTERS[step.kind])
        for step, start in zip(made.steps, played.start_s, strict=True)
        if step.node == name and step.to is None and step.kind in LETTERS
    ]
    return "".join(what for _, what in sorted(own))


def test_one_forward_one_backward_in_turns() -> None:
    found = price(*world(), pipeline(5, order="1f1b"))
    assert calls_on("c", found) == "FBFBFBFBFB"
    assert calls_on("b", found) == "FFBFBFBFBB"
    assert calls_on("a", found) == "FFFBFBFBBB"


def test_microbatches_that_part_and_meet_again_do_not_wait_for_each_other_forever() -> None:
    """The node in between goes forward less often before it goes back, since what feeds it goes back in between."""
    parts: list[Fields] = []
    for m, ends in enumerate(((1, 3, 4), (1, 2, 4), (1, 2, 4), (1, 3, 4))):
        parts.append(source("b", 1, f"{m}.0"))
        for k, (last, first) in enumerate(zip(ends, (1, *(end + 1 for end in ends)), strict=False)):
            parts.append(instance(f"{m}.{k}", first, last, "bab"[k], f"{m}.{k + 1}" if k < 2 else None))
    turns, fifo = (price(*world(4), phase(*parts, order=order)) for order in ("1f1b", "fifo"))
    assert (turns.iteration_s, fifo.iteration_s) == (pytest.approx(34), pytest.approx(30))


def test_turns_take_the_time_of_a_pipeline_and_less_memory() -> None:
    many, stages = 6, 3
    turns, fifo = (price(*world(), pipeline(many, order=order)) for order in ("1f1b", "fifo"))
    assert turns.iteration_s == pytest.approx((many + stages - 1) * 3, rel=1e-6)
    assert turns.iteration_s <= fifo.iteration_s * (1 + 1e-6)
    known = Evaluator(*reversed(world()))  # type: ignore[arg-type]
    held = known.peak_bytes(pipeline(many, order="1f1b"))
    assert [held[name] for name in "abc"] == [300.0, 200.0, 100.0]
    assert known.peak_bytes(pipeline(many))["a"] == 600.0


def test_gradients_of_weights_follow_as_many_microbatches_later_as_there_are_stages_before() -> None:
    found = price(*world(weights=1.0), pipeline(5, order="zero-bubble"))
    assert calls_on("c", found) == "FBFBFBWFBWFBWWW"
    assert calls_on("b", found) == "FFBFBWFBWFBWBWW"
    assert calls_on("a", found) == "FFFBFBFBBB"


def test_halves_shorten_the_bubble_and_keep_activations_until_the_second() -> None:
    many, stages = 6, 3
    known = Evaluator(*reversed(world(weights=1.0)))  # type: ignore[arg-type]
    tree = pipeline(many, order="zero-bubble")
    # A forward, and a half of a backward: of the bubble that the first waits for, the halves of weights fill one each.
    assert known.price(tree).iteration_s == pytest.approx(many * 3 + (stages - 1) * (1 + 1 - 1), rel=1e-6)
    held = known.peak_bytes(tree)
    weights = 1 + 2  # and their gradients: the sum, and those that have just been made
    assert [held[name] - weights for name in "abc"] == [300.0, 300.0 + 200.0, 300.0 + 300.0]  # and gradients of some
    assert known.price(pipeline(1, order="zero-bubble")).iteration_s == pytest.approx(9 - 2, rel=1e-6)


def test_a_profile_may_say_how_long_the_gradient_of_the_input_takes() -> None:
    where, known = world(weights=1.0)
    for part_s, iteration_s in ((2.0, 9.0), (0.5, 6.0)):
        said = {name: each.model_copy(update={"backward_input_s": (part_s,) * 3}) for name, each in known.nodes.items()}
        found = price(where, known.model_copy(update={"nodes": said}), pipeline(1, order="zero-bubble"))
        assert found.iteration_s == pytest.approx(iteration_s, rel=1e-6)  # the first stage goes back whole


def test_layers_without_weights_have_no_second_half() -> None:
    where, known = world(weights=0.0)
    whole, halves = (price(where, known, pipeline(4, order=order)) for order in ("1f1b", "zero-bubble"))
    assert halves.iteration_s == whole.iteration_s
    assert calls_on("c", halves) == "FBFBFBFB"


@pytest.mark.parametrize("order", ["1f1b", "zero-bubble"])
def test_a_batch_norm_over_the_whole_batch_leaves_no_turns(order: str) -> None:
    where, known = world(weights=1.0)
    layers = tuple(layer.model_copy(update={"batch_norm_channels": (2,)}) for layer in known.layers)
    normed = known.model_copy(update={"layers": layers})
    found, fifo = (price(where, normed, pipeline(3, order=each, batch_norm="whole")) for each in (order, "fifo"))
    assert found.iteration_s == fifo.iteration_s


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
    prices = Evaluator(known, where)
    assert prices.price(tree.model_copy(update={"order": "zero-bubble"})).iteration_s > 0
    turns = tree.model_copy(update={"order": "1f1b"})
    assert prices.price(turns).iteration_s > 0
    held = prices.peak_bytes(tree)
    assert all(size <= held[name] for name, size in prices.peak_bytes(turns).items())


def test_microbatches_that_merge_are_taken_as_they_come() -> None:
    parts = [source("a", 1, f"a{m}") for m in range(3)] + [instance(f"a{m}", 1, 1, "a", "b") for m in range(3)]
    merging = phase(*parts, instance("b", 2, 2, "b"), order="1f1b")
    found = price(*world(2), merging)
    assert calls_on("a", found) == "FFFBBB"


def spread(*widths: int, many: int = 12, order: str = "1f1b") -> tuple[Cluster, Profile, Phase]:
    """A pipeline with so many nodes for each stage, to which microbatches go in turns."""
    names = [[f"s{k}n{n}" for n in range(wide)] for k, wide in enumerate(widths)]
    every = [name for stage in names for name in stage]
    links = [link(one, other, FAST) for k, one in enumerate(every) for other in every[k + 1 :]]
    parts: list[Fields] = []
    for m in range(many):
        places = [stage[m % len(stage)] for stage in names]
        parts.append(source(places[0], 1, f"0-{m}"))
        for k, place in enumerate(places):
            parts.append(instance(f"{k}-{m}", k + 1, k + 1, place, f"{k + 1}-{m}" if k + 1 < len(widths) else None))
    known = profile([(1.0, 1.0, 100.0)] * len(widths), **{name: times(len(widths), 1.0, 2.0, 0.0) for name in every})
    return cluster(*links, **{name: node(99) for name in every}), known, phase(*parts, order=order)


@pytest.mark.parametrize("order", ["1f1b", "zero-bubble"])
@pytest.mark.parametrize("widths", [(1, 3, 1), (1, 3, 2), (2, 1, 3), (3, 1, 2, 1), (1, 4, 4), (3, 2, 1)])
def test_stages_on_different_numbers_of_nodes_take_turns_without_waiting_for_themselves(
    widths: tuple[int, ...], order: str
) -> None:
    where, known, tree = spread(*widths, order=order)
    prices = Evaluator(known, where)
    fifo = tree.model_copy(update={"order": "fifo"})
    assert takes_turns(tree)
    assert prices.price(tree).iteration_s >= 12 * 3 / min(widths)
    held, all_held = prices.peak_bytes(tree), prices.peak_bytes(fifo)
    assert order == "zero-bubble" or sum(held.values()) < sum(all_held.values())
