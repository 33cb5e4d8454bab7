"""Gradients that leave while backward goes on: in buckets, last layers first, to the same weights bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from palmette.cost import buckets
from palmette.cost.check import check
from palmette.cost.operations import iteration
from palmette.cost.steps import Kind, Piece
from palmette.runtime.phase_programs import channels_of, leading_channels, parts_of
from palmette.spec.cluster import Cluster
from palmette.spec.exchange import known_exchange
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, plan, source
from tests.runtime.rig import Rig, Weights
from tests.runtime.test_equality import images, random_rig
from tests.runtime.test_exchange import REPLICAS, random_owners, wide, with_shapes, world
from tests.runtime.trees import Forest
from tests.thorough import mostly_thorough


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "LEAST_BYTES", 1.0)


def overlapped(tree: Phase) -> Phase:
    return tree.model_copy(update={"overlap": True})


def assert_same(rig: Rig, tree: Phase, known: Cluster, iterations: int = 6) -> None:
    plain = rig.trained(tree, known, iterations)
    found = rig.trained(overlapped(tree), known, iterations)
    assert plain[0] == pytest.approx(found[0], rel=1e-12)  # added up as nodes report them
    for node_name, weights in plain[1].items():
        assert _equal(weights, found[1][node_name]), node_name


def _equal(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("seed", mostly_thorough(range(30), 12))
def test_any_tree_has_the_same_weights_to_the_last_bit(seed: int) -> None:
    assert_same(*random_rig(seed))


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(6), 1))
def test_any_tree_has_the_same_weights_many_times(block: int) -> None:
    for seed in range(2000 + 30 * block, 2030 + 30 * block):
        assert_same(*random_rig(seed), iterations=3)


@pytest.mark.parametrize("text", ["int8", "topk:0.1", "lowrank:1"])
def test_coded_gradients_are_the_same_too(text: str) -> None:
    assert_same(wide(), phase(*REPLICAS, exchange=known_exchange(text).model_dump()), world())


@pytest.mark.parametrize(
    "options", [{"clip_norm": 0.1}, {"optimizer": "adam"}, {"accumulate": 2}, {"schedule": "linear", "warmup": 2}]
)
def test_optimizers_schedules_and_clipping_do_not_notice(options: dict[str, object]) -> None:
    assert_same(wide(**options), phase(*REPLICAS), world())


@pytest.mark.parametrize("batch_norm", ["parts", "whole"])
def test_batch_norm_does_not_notice(batch_norm: str) -> None:
    parts = (source("a", 6, "I"), source("b", 6, "J"), instance("I", 1, 5, "a"), instance("J", 1, 5, "b"))
    assert_same(images(batch_norm=True), phase(*parts, batch_norm=batch_norm), world())


def test_instances_that_recompute_do_not_notice() -> None:
    parts = [{**part, "recompute": True} if "id" in part else part for part in REPLICAS]
    assert_same(wide(), phase(*parts), world())


def test_a_run_that_is_resumed_equals_one_that_was_not(tmp_path: Path) -> None:
    def forest(name: str) -> Forest:
        (tmp_path / name).mkdir(exist_ok=True)
        tree = overlapped(phase(*REPLICAS, exchange={"codec": "int8"}))
        return Forest(wide(), tree, world(), tmp_path / name)

    _, whole = forest("whole").trained(iterations=8)
    stopped = forest("parts")
    stopped.watch = lambda training, update: training.stop() if update.iteration == 3 else None
    stopped.trained(iterations=8)
    assert _equal(whole, forest("parts").trained(resume=True, iterations=8)[1])


def even() -> Rig:
    """Three layers of as many weights."""
    torch.manual_seed(0)
    return Rig([nn.Linear(8, 8) for _ in range(3)], (8,))


def test_buckets_leave_last_layers_first_and_are_updated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MOST_BUCKETS", 3)
    evaluator = even().evaluator(world())
    made = iteration(overlapped(phase(*REPLICAS)), evaluator.sizes(), evaluator.routes)
    pushes = [step.layers for step in made.steps if step.kind is Kind.PUSH and step.node == "b"]
    assert pushes == [((3, 3),), ((2, 2),), ((1, 1),)]
    updates = [step.layers for step in made.steps if step.kind is Kind.UPDATE and step.node == "b"]
    assert updates == pushes
    for step in made.steps:
        if step.kind is Kind.PUSH:
            (need,) = step.after
            assert (made.steps[need].kind, made.steps[need].layers) == (Kind.BACKWARD, step.layers)


def test_a_large_bucket_leaves_in_pieces_one_behind_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MOST_BUCKETS", 5)
    evaluator = even().evaluator(world())
    made = iteration(overlapped(phase(*REPLICAS)), evaluator.sizes(), evaluator.routes)
    for kind, ends in ((Kind.PUSH, ("b", "a")), (Kind.PULL, ("a", "b"))):
        sent = [k for k, step in enumerate(made.steps) if step.kind is kind and (step.node, step.to) == ends]
        told = [(made.steps[number].layers[0][0], made.steps[number].piece) for number in sent]
        assert told == [(layer, Piece(number, 2)) for layer in (3, 2, 1) for number in (0, 1)]
        assert [made.steps[number].behind for number in sent] == [None, *sent[:-1]]
    halves = [size for step, size in zip(made.steps, made.size_bytes, strict=True) if step.kind is Kind.PUSH]
    assert set(halves) == {evaluator.sizes().exchanged_bytes([(1, 1)]) / 2}
    updates = [step.layers for step in made.steps if step.kind is Kind.UPDATE and step.node == "b"]
    assert updates == [((3, 3),), ((2, 2),), ((1, 1),)]


def test_messages_that_leave_in_turn_have_one_connection_in_each_direction() -> None:
    """Else TCP would let them share the link, and all would arrive at the same time."""
    parts = parts_of(overlapped(phase(*REPLICAS)), even().evaluator(world()))
    known, leading = channels_of(parts), leading_channels(parts)
    rows: dict[tuple[str, str], set[int]] = {}
    for number, channel in known.items():
        rows.setdefault(channel[1:], set()).add(leading.get(number, number))
    assert rows.keys() == {("b", "a"), ("c", "a"), ("a", "b"), ("a", "c")}
    assert all(len(first) == 1 for first in rows.values())
    assert leading_channels(parts_of(phase(*REPLICAS), even().evaluator(world()))) == {}


@pytest.mark.parametrize("seed", mostly_thorough(range(12), 4))
def test_the_estimate_counts_the_bytes_of_pieces(seed: int) -> None:
    rig, tree, known = random_owners(seed)
    rig.options = replace(rig.options, dtype="float32")
    rig.trained(overlapped(tree), known, iterations=1)
    evaluator = with_shapes(rig, known)
    made = iteration(overlapped(tree), evaluator.sizes(), evaluator.routes)
    transfers = [(step, size) for step, size in zip(made.steps, made.size_bytes, strict=True) if step.to is not None]
    for channel, sent in rig.wire.sizes.items():
        step, size = transfers[channel.number]
        if step.kind in (Kind.PUSH, Kind.PULL):
            assert size == pytest.approx(sent, rel=1e-12), step


def test_what_a_codec_left_out_goes_with_pieces(tmp_path: Path) -> None:
    """A run with a codec that goes on without one: the same weights with and without overlap."""

    def trained(name: str, tree: Phase) -> Weights:
        (tmp_path / name).mkdir()
        coded = Forest(wide(), phase(*REPLICAS, exchange={"codec": "topk", "ratio": 0.2}), world(), tmp_path / name)
        coded.watch = lambda training, update: training.stop() if update.iteration == 3 else None
        coded.trained(iterations=8)
        return Forest(wide(), tree, world(), tmp_path / name).trained(resume=True, iterations=8)[1]

    found = trained("pieces", overlapped(phase(*REPLICAS)))
    assert _equal(trained("plain", phase(*REPLICAS)), found)
    (tmp_path / "whole").mkdir()
    assert not _equal(Forest(wide(), phase(*REPLICAS), world(), tmp_path / "whole").trained(iterations=8)[1], found)


def test_small_layers_share_a_bucket_and_a_lone_node_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "LEAST_BYTES", 2.0**16)
    evaluator = wide().evaluator(world())
    made = iteration(overlapped(phase(*REPLICAS)), evaluator.sizes(), evaluator.routes)
    assert [step.layers for step in made.steps if step.kind is Kind.PUSH] == [((1, 3),), ((1, 3),)]
    monkeypatch.setattr(buckets, "LEAST_BYTES", 1.0)
    alone = phase(source("a", 4, "I"), source("a", 3, "J"), instance("I", 1, 3, "a"), instance("J", 1, 3, "a"))
    made = iteration(overlapped(alone), evaluator.sizes(), evaluator.routes)
    assert sum(step.kind is Kind.BACKWARD for step in made.steps) == 2


def test_the_clock_hides_the_exchange_behind_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three layers of equal bytes and times on a link on which a bucket takes as long as the backward of a layer."""
    monkeypatch.setattr(buckets, "MOST_BUCKETS", 3)
    rig = even()
    known = cluster(link("a", "b"), a=node(10), b=node(10))
    evaluator = rig.evaluator(known)
    tree = phase(source("a", 1, "I"), source("b", 1, "J"), instance("I", 1, 3, "a"), instance("J", 1, 3, "b"))
    size = evaluator.profile.layers[0].parameter_bytes
    nodes = evaluator.profile.nodes.items()
    slow = {name: times.model_copy(update={"backward_s": (size,) * 3}) for name, times in nodes}
    evaluator.profile = evaluator.profile.model_copy(update={"nodes": slow})
    assert evaluator.price(tree).iteration_s == pytest.approx(3 * size + 3 * size + 3 * size)
    assert evaluator.price(overlapped(tree)).iteration_s == pytest.approx(3 * size + size + size)
    monkeypatch.setattr(buckets, "MOST_BUCKETS", 12)
    pieces = rig.evaluator(known)
    pieces.profile = evaluator.profile
    assert pieces.price(overlapped(tree)).iteration_s == pytest.approx(3 * size + size + size / 4)


def test_overlap_apart_from_step_is_refused() -> None:
    tree = overlapped(phase(*REPLICAS)).model_copy(update={"sync": "epoch"})
    (fault,) = check(plan(tree), wide().evaluator(world()))
    assert str(fault) == "phases[0].overlap: True: under epoch no gradients are averaged; expected false"
