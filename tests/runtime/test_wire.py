"""What the wire carries: of a private source no sample, and only those labels whose loss is computed elsewhere."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.cost.labels import labels_by_instance, travelling
from palmette.cost.operations import iteration
from palmette.cost.steps import Kind, Step
from palmette.runtime.transports.memory import MemoryEndpoint
from palmette.spec.cluster import Cluster
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.plan import Phase
from palmette.zoo.data.raw_bytes import to_bytes
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.owners import CLASSES, Owners, Recording, random_owners
from tests.runtime.rig import Rig, Toy
from tests.runtime.trees import DATA, Forest, MemoryGround
from tests.thorough import mostly_thorough

ITERATIONS = 5


def labels_in(message: Tensor) -> list[int]:
    """The labels that a message of doubles carries: as doubles they would be nothing that a network computes."""
    assert message.numel() % 8 == 0
    return [each for each in message.view(torch.int64).tolist() if 0 < each < CLASSES]


def numbers_in(message: Tensor) -> set[float]:
    return set(message.view(torch.float64).tolist())


def sent_by(rig: Owners, node_name: str) -> list[Tensor]:
    return [message for sender, message in rig.wire.sent if sender == node_name]


def assert_private(rig: Owners, tree: Phase, known: Cluster) -> None:
    """Also where the plan would have samples kept, and sent ahead."""
    feeds = tuple(each.model_copy(update={"delivery": "once"}) for each in tree.sources)
    tree = tree.model_copy(update={"sources": feeds, "ahead": True})
    rig.trained(tree, known, iterations=ITERATIONS)
    for name in {feed.node for feed in tree.sources}:
        secret = set(rig.owned[name].inputs.flatten().tolist())
        samples = rig.owned[name].stored(range(len(rig.owned[name])))
        for _, message in rig.wire.sent:
            assert not numbers_in(message) & secret
            assert not any(sample in message.numpy().tobytes() for sample in samples)
    assert sorted(each for _, message in rig.wire.sent for each in labels_in(message)) == sorted(expected(rig, tree))


def expected(rig: Owners, tree: Phase) -> list[int]:
    """The labels of sources whose loss is computed elsewhere, once for each time they change nodes."""
    places = {each.id: each for each in tree.instances}
    found: list[int] = []
    for number in range(ITERATIONS):
        _, drawn = rig.drawn(tree, number)
        begin = 0
        for feed, leaves in zip(tree.sources, travelling(tree), strict=True):
            own, begin = drawn[begin : begin + feed.samples].tolist(), begin + feed.samples
            at, node_name = places[feed.into], feed.node
            while leaves:
                found += own if at.node != node_name else []
                if at.into is None:
                    break
                at, node_name = places[at.into], at.node
    return found


@pytest.mark.parametrize("seed", mostly_thorough(range(25), 12))
def test_of_private_sources_no_sample_leaves_and_only_labels_that_have_to(seed: int) -> None:
    assert_private(*random_owners(seed, private=True))


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(4), 1))
def test_of_private_sources_no_sample_leaves_many_times(block: int) -> None:
    for seed in range(100 + 50 * block, 150 + 50 * block):
        assert_private(*random_owners(seed, private=True))


@pytest.mark.parametrize("seed", mostly_thorough(range(25), 12))
@pytest.mark.parametrize("codec", ["int8", "int4", "int4-delta", "none", "any"])
def test_the_estimate_counts_the_bytes_that_are_sent(codec: str, seed: int) -> None:
    rig, tree, known = random_owners(seed)
    rig.options = replace(rig.options, dtype="float32")
    draw = random.Random(seed)
    coded = [each.model_copy(update={"codec": _drawn(codec, draw)}) for each in tree.instances]
    tree = tree.model_copy(update={"instances": tuple(coded)})
    rig.trained(tree, known, iterations=1)
    evaluator = rig.evaluator(known)
    made = iteration(tree, evaluator.sizes(), evaluator.routes)
    transfers = [(step, size) for step, size in zip(made.steps, made.size_bytes, strict=True) if step.to is not None]
    assert {channel.number for channel in rig.wire.sizes} == set(range(len(transfers)))
    for channel, sent in rig.wire.sizes.items():
        step, size = transfers[channel.number]
        assert size + uncounted_label_bytes(tree, step) == sent, step


def _drawn(codec: str, draw: random.Random) -> str:
    return draw.choice(["int8", "int4", "int4-delta", "none"]) if codec == "any" else codec


def uncounted_label_bytes(tree: Phase, step: Step) -> int:
    """Labels beside samples and outputs that travel as they are: their price is the profile's bytes alone.

    With samples they are as small as the classes allow; a byte says whether the samples differ in size.
    """
    if step.kind is Kind.DATA:
        assert step.source is not None
        return 1 + (tree.sources[step.source].samples if travelling(tree)[step.source] else 0)
    coded = CODEC_KINDS[tree.instances[step.instance].codec].counts_labels
    return 8 * labels_by_instance(tree)[step.instance] if step.kind is Kind.OUTPUT and not coded else 0


def u_shaped(**more: str) -> tuple[Owners, Phase, Cluster]:
    """First and last layer on the phone, the middle on the server."""
    torch.manual_seed(2)
    toy = Toy((5,), CLASSES - 1, 30)
    toy.targets += 1
    layers: list[nn.Module] = [nn.Linear(5, 6), nn.Sequential(nn.Tanh(), nn.Linear(6, 6)), nn.Linear(6, CLASSES)]
    first = more.get("first", "phone")
    tree = phase(
        source("phone", 6, "front"),
        instance("front", 1, 1, first, "middle"),
        instance("middle", 2, 2, "server", "back"),
        instance("back", 3, 3, "phone"),
    )
    known = cluster(link("phone", "server"), phone=node(30), server=node())
    return Owners(layers, (5,), classes=CLASSES, owned={"phone": toy}), tree, known


def test_in_a_u_shaped_tree_no_label_leaves() -> None:
    rig, tree, known = u_shaped()
    assert_private(rig, tree, known)
    assert rig.wire.sent
    assert not any(labels_in(message) for _, message in rig.wire.sent)


@dataclass
class RecordingGround(MemoryGround):
    """Writes down what the workers of a run send."""

    wire: Recording = field(default_factory=Recording)

    def open(self, *_: Any) -> None:
        self._place = MemoryEndpoint(self.wire)


@pytest.mark.parametrize("sync", ["step", "epoch", "async"])
@pytest.mark.parametrize("at", ["a", "b"])
def test_under_every_sync_labels_stay_unless_the_loss_is_computed_elsewhere(sync: str, at: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    layers: list[nn.Module] = [nn.Linear(5, 6), nn.Sequential(nn.Tanh(), nn.Linear(6, 6)), nn.Linear(6, 3)]
    tree = phase(
        source("a", 6, "front"),
        instance("front", 1, 1, "a", "middle"),
        instance("middle", 2, 2, "b", "back"),
        instance("back", 3, 3, at),
        sync=sync,
    )
    owner = {"tier": "device", "source": {"samples": 54, "private": True, "data": DATA}}
    known, testbed = cluster(link("a", "b"), a=owner, b=node()), RecordingGround()
    forest = Forest(Rig(layers, (5,)), tree, known, tmp_path, testbed)
    outcome, _ = forest.trained(iterations=ITERATIONS)
    assert (outcome.ended, outcome.iterations) == ("done", ITERATIONS)
    secret = set(forest.job().own_data[DATA].train.batch(range(54))[0].flatten().tolist())
    assert not any(numbers_in(message) & secret for _, message in testbed.wire.sent)
    assert any(labels_in(message) for _, message in testbed.wire.sent) == (at == "b")


def test_samples_that_may_leave_go_without_labels_that_are_needed_at_home() -> None:
    rig, tree, known = u_shaped(first="server")
    rig.trained(tree, known, iterations=ITERATIONS)
    messages = [message.numpy().tobytes() for message in sent_by(rig, "phone")]
    for number in range(ITERATIONS):
        sample = to_bytes(rig.drawn(tree, number)[0])
        assert b"\0" + sample in messages  # nothing but the samples, all of one size
    returned = [message for sender, message in rig.wire.sent if sender == "server"]
    assert not any(labels_in(message) for message in returned)
    losses, _ = u_shaped(first="server")[0].trained(tree, known, iterations=ITERATIONS)
    assert losses == pytest.approx(rig.alone_with(tree, ITERATIONS)[0], rel=1e-9)
