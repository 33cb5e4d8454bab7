"""Samples that are kept and samples that travel ahead: the same weights as one process, and no byte twice."""

from __future__ import annotations

import json
import random
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from torch import nn

from palmette.cost.delivery import kept_bytes, sending_sources, waiting_bytes
from palmette.runtime.data.kept_samples import KeptSamples, SampleStore, file_name
from palmette.runtime.worker.commands import Execute
from palmette.runtime.worker.sample_transfers import SampleTransfers
from palmette.spec.cluster import Cluster, Source
from palmette.spec.plan import USUAL_AHEAD, Phase
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.owners import Owners, random_owners
from tests.runtime.rig import Rig, Toy, done, off, random_layers
from tests.runtime.trees import Forest
from tests.thorough import mostly_thorough

ITERATIONS = 12


def delivered(tree: Phase, seed: int) -> Phase:
    """The tree with some samples kept, and some sent ahead."""
    draw = random.Random(seed)
    feeds = [each.model_copy(update={"delivery": draw.choice(["each", "once", "once"])}) for each in tree.sources]
    return tree.model_copy(update={"sources": tuple(feeds), "ahead": draw.random() < 0.6})


def assert_equal(rig: Owners, tree: Phase, known: Cluster) -> None:
    losses, held = rig.trained(tree, known, iterations=ITERATIONS)
    expected_losses, expected = rig.alone_with(tree, ITERATIONS)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    for weights in held.values():
        assert off(weights, expected) <= 1e-10


@pytest.mark.parametrize("seed", mostly_thorough(range(25), 12))
def test_any_delivery_equals_one_process(seed: int, tmp_path: Path) -> None:
    rig, tree, known = random_owners(seed)
    rig.folder = tmp_path
    assert_equal(rig, delivered(tree, seed), known)


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(4), 1))
def test_any_delivery_equals_one_process_many_times(block: int, tmp_path: Path) -> None:
    for seed in range(100 + 40 * block, 140 + 40 * block):
        rig, tree, known = random_owners(seed)
        rig.folder = tmp_path / str(seed)
        assert_equal(rig, delivered(tree, seed), known)


def four_owners(deliveries: str, *, ahead: bool) -> Phase:
    """Owners feed one branch or two, on different nodes; a branch of one is on its own."""
    owners = [("a", 3, "x"), ("b", 1, "y"), ("c", 5, "x"), ("d", 2, "z"), ("d", 1, "x"), ("a", 4, "y"), ("c", 2, "y")]
    ways = {"o": "once", "e": "each"}
    feeds = [source(*each, delivery=ways[deliveries[k % len(deliveries)]]) for k, each in enumerate(owners)]
    return phase(
        *feeds,
        instance("x", 1, 2, "e", "r"),
        instance("y", 1, 1, "f", "s"),
        instance("s", 2, 2, "e", "r"),
        instance("z", 1, 2, "d", "r"),
        instance("r", 3, 3, "f"),
        ahead=ahead,
    )


@pytest.mark.parametrize("ahead", [False, True], ids=["when needed", "ahead"])
@pytest.mark.parametrize("deliveries", ["e", "o", "oe", "eeo"])
def test_four_owners_of_unequal_data_equal_one_process(deliveries: str, ahead: bool, tmp_path: Path) -> None:
    draw, many = random.Random(7), {"a": 7, "b": 20, "c": 45, "d": 13}
    known = cluster(*(link(each, "e") for each in "abcdf"), **{n: node(many.get(n)) for n in "abcdef"})
    toys = {name: Toy((5,), 3, size, seed=k) for k, (name, size) in enumerate(many.items())}
    rig = Owners(random_layers(draw, 3), (5,), owned=toys, folder=tmp_path)
    assert_equal(rig, four_owners(deliveries, ahead=ahead), known)


def dropout_rig(folder: Path) -> Rig:
    draw = random.Random(3)
    layers = [nn.Sequential(nn.Dropout(0.5), layer) for layer in random_layers(draw, 3)]
    return Rig([*layers], (5,), folder=folder)


BRANCHES = phase(
    source("a", 4, "x", delivery="once"),
    source("a", 7, "y", delivery="once"),
    instance("x", 1, 2, "b", "z"),
    instance("y", 1, 2, "c", "z"),
    instance("z", 3, 3, "c"),
    ahead=True,
)
THREE = cluster(link("a", "b"), link("b", "c"), a=node(60), b=node(), c=node())


def test_masks_of_dropout_are_those_of_the_batch_as_it_was_drawn(tmp_path: Path) -> None:
    rig = dropout_rig(tmp_path)
    losses, held = rig.trained(BRANCHES, THREE, iterations=ITERATIONS)
    expected_losses, expected = rig.alone(BRANCHES.batch, iterations=ITERATIONS)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    assert all(off(weights, expected) <= 1e-10 for weights in held.values())


def test_what_a_node_has_is_not_sent_again(tmp_path: Path) -> None:
    """One branch, three passes over the data: each sample crosses the link once."""
    rig, tree, known = uploading(tmp_path)
    rig.trained(tree, known, iterations=15)
    messages = [message.numpy().tobytes() for sender, message in rig.wire.sent if sender == "a"]
    assert len(messages) == 5  # of the first pass; 15 iterations take 30 samples three times
    everything = b"".join(messages)
    samples = rig.owned["a"].stored(range(30))
    assert all(everything.count(sample) == 1 for sample in samples)
    assert len(everything) == 5 + 30 * (1 + rig.owned["a"].sample_bytes)


@pytest.mark.parametrize("seed", range(12))
def test_samples_on_a_node_take_no_more_than_the_estimate_says(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory, where they wait for their iteration, and on disk, where they are kept."""
    rig, tree, known = random_owners(seed)
    rig.folder, held, usual = tmp_path, defaultdict[str, int](int), SampleTransfers.begin

    def noted(self: SampleTransfers, iteration: int, began_s: float, until: int) -> None:
        usual(self, iteration, began_s, until)
        time.sleep(0.005)  # for what may be sent ahead to arrive
        with self._lock:
            waiting = [each for early in self._early.values() for each in early if each.operation.op == "receive"]
        for name in {each.operation.channel.receiver for each in waiting if each.operation.channel}:
            held[name] = max(held[name], sum(memory_bytes(each.value or []) for each in waiting))

    monkeypatch.setattr(SampleTransfers, "begin", noted)
    tree = delivered(tree, seed).model_copy(update={"ahead": True})
    rig.trained(tree, known, iterations=ITERATIONS)
    described = with_data_of(rig, known)
    sizes = rig.evaluator(described).sizes()
    waiting, kept = waiting_bytes(tree, sizes), kept_bytes(tree, described, sizes)
    assert all(found <= waiting.get(name, 0.0) for name, found in held.items())
    on_disk = {name: sum(file.stat().st_size for file in (tmp_path / name).glob("*")) for name in known.nodes}
    assert all(found <= kept.get(name, 0.0) for name, found in on_disk.items())
    assert any(held.values()) == any(tree.sources[k].delivery == "each" for k in sending_sources(tree))
    assert any(on_disk.values()) == any(tree.sources[k].delivery == "once" for k in sending_sources(tree))


def with_data_of(rig: Owners, known: Cluster) -> Cluster:
    """The cluster as it would be described: with the samples that nodes own."""
    nodes = {
        name: each.model_copy(update={"source": Source(samples=len(rig.owned[name]), data=name)})
        for name, each in known.nodes.items()
    }
    return known.model_copy(update={"nodes": nodes})


def memory_bytes(samples: list[bytes]) -> int:
    return sum(map(sys.getsizeof, samples)) + 8 * len(samples)


def uploading(folder: Path, **more: object) -> tuple[Owners, Phase, Cluster]:
    torch.manual_seed(2)
    tree = phase(source("a", 6, "all", delivery="once"), instance("all", 1, 2, "b"), **more)
    known = cluster(link("a", "b"), a=node(30), b=node())
    layers: list[nn.Module] = [nn.Sequential(nn.Linear(5, 6), nn.Tanh()), nn.Linear(6, 3)]
    return Owners(layers, (5,), owned={"a": Toy((5,), 3, 30)}, folder=folder), tree, known


def test_samples_of_the_next_iteration_arrive_before_it_begins(tmp_path: Path) -> None:
    rig, tree, known = uploading(tmp_path, ahead=True)
    feeds = tuple(each.model_copy(update={"delivery": "each"}) for each in tree.sources)
    tree = tree.model_copy(update={"sources": feeds})
    with rig.crew(tree, known) as (crew, programs):
        for name in programs:
            crew.send(name, Execute(0, 0, 0, 9))
        for _ in programs:
            done(crew)
        until_s = time.monotonic() + 10
        while len(rig.wire.sent) < 1 + USUAL_AHEAD and time.monotonic() < until_s:
            time.sleep(0.001)
        assert len(rig.wire.sent) == 1 + USUAL_AHEAD  # those of the next iterations, which have not begun


def test_nothing_is_sent_for_iterations_that_will_not_follow(tmp_path: Path) -> None:
    rig, tree, known = uploading(tmp_path, ahead=True)
    feeds = tuple(each.model_copy(update={"delivery": "each"}) for each in tree.sources)
    rig.trained(tree.model_copy(update={"sources": feeds}), known, iterations=4)
    assert len(rig.wire.sent) == 4


@pytest.mark.parametrize("sync", ["step", "epoch", "async"])
def test_kept_samples_outlive_the_workers_and_are_checked(sync: str, tmp_path: Path) -> None:
    """A run that is resumed finds what it was sent; what is damaged, or of longer data than now, does no harm."""
    forest, whole = owner_forest(sync, tmp_path), owner_forest(sync, tmp_path / "whole")
    whole.folder.mkdir()
    _, expected = whole.trained(iterations=20)
    forest.watch = lambda training, update: training.stop() if update.iteration == 9 else None
    forest.trained(iterations=20)
    sample_bytes = 5 * 8 + 1  # five doubles and a label
    assert sent_bytes(tmp_path) == pytest.approx(54 * sample_bytes, abs=9)
    kept = tmp_path / "samples" / file_name("b") / file_name("a")
    assert kept.stat().st_mode & 0o077 == 0
    assert kept.parent.stat().st_mode & 0o077 == 0
    damaged = bytearray(kept.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    kept.write_bytes(damaged[:-5])
    longer = KeptSamples(kept)
    longer.add(999, bytes(sample_bytes))
    longer.close()
    forest.watch = lambda *_: None
    _, found = forest.trained(resume=True, iterations=20)
    assert off(found, expected) <= 1e-12
    assert sent_bytes(tmp_path, begin=9) <= 3 * sample_bytes  # the damaged one and the last


def sent_bytes(folder: Path, begin: int = 0) -> int:
    """Bytes of samples that were sent from an iteration on."""
    lines = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    sent = [each for each in lines if (each["op"], each["node"]) == ("send", "a")]
    return sum(each["bytes"] for each in sent if each["iteration"] >= begin)


def owner_forest(sync: str, folder: Path) -> Forest:
    torch.manual_seed(2)
    layers: list[nn.Module] = [nn.Sequential(nn.Linear(5, 6), nn.Tanh()), nn.Linear(6, 3)]
    tree = phase(source("a", 6, "all", delivery="once"), instance("all", 1, 2, "b"), sync=sync)
    return Forest(Rig(layers, (5,)), tree, cluster(link("a", "b"), a=node(54), b=node()), folder)


def test_only_sources_whose_samples_travel_send_any() -> None:
    tree = phase(source("a", 1, "x"), source("b", 2, "x"), instance("x", 1, 1, "b"))
    assert sending_sources(tree) == [0]


def test_branches_on_one_node_share_what_it_keeps(tmp_path: Path) -> None:
    """Two micro-batches to one node: a sample that came with one is not sent again with the other."""
    rig, _, known = uploading(tmp_path)
    tree = phase(
        source("a", 2, "x", delivery="once"),
        source("a", 4, "y", delivery="once"),
        instance("x", 1, 2, "b"),
        instance("y", 1, 2, "b"),
        ahead=True,
    )
    losses, _ = rig.trained(tree, known, iterations=20)
    assert losses == pytest.approx(rig.alone_with(tree, 20)[0], rel=1e-9)
    everything = b"".join(message.numpy().tobytes() for sender, message in rig.wire.sent if sender == "a")
    assert all(everything.count(sample) == 1 for sample in rig.owned["a"].stored(range(30)))


def test_a_phase_uploads_all_samples_for_the_next(tmp_path: Path) -> None:
    rig, _, known = uploading(tmp_path)
    tree = phase(source("a", 6, "all"), instance("all", 1, 2, "a"), upload=["b"])
    rig.iterations = 7
    losses, _ = rig.trained(tree, known, iterations=7)
    assert losses == pytest.approx(rig.alone_with(tree, 7)[0], rel=1e-9)
    kept = SampleStore(tmp_path / "b").of("a")
    samples = rig.owned["a"].stored(range(30))
    assert [kept.get(number)[1:] for number in range(30)] == samples
    assert [kept.get(number)[0] for number in range(30)] == rig.owned["a"].targets.tolist()
