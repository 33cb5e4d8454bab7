"""Outputs as differences to kept ones: as one process that codes the same way; the bytes and memory as estimated."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.compress.codec import CODERS
from palmette.cost.kept_outputs import KEPT_OUTPUT_BYTES, keeping_channels, keeps_outputs
from palmette.runtime.data.batches import Batches, DealtBatches
from palmette.runtime.worker.dropout import replace_dropout
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.owners import Owners
from tests.runtime.plain import PlainUpdates
from tests.runtime.rig import Groups, Rig, Toy, Weights, relatively_off
from tests.runtime.test_equality import random_rig
from tests.runtime.test_wire import RecordingGround
from tests.runtime.trees import DATA, Forest
from tests.thorough import mostly_thorough

WORLD = cluster(link("a", "b"), link("b", "c"), a=node(60), b=node(), c=node())


def there_and_back(values: Tensor, codec: str) -> Tensor:
    coder = CODERS[codec]  # type: ignore[index]
    return coder.extract(coder.compress(values, {}), tuple(values.shape), values.dtype)


class Coded(torch.autograd.Function):
    """A message there, of which ``arriving`` arrives, and its gradient back as int8, or as it is."""

    @staticmethod
    def forward(ctx: Any, _: Tensor, arriving: Tensor, codec: str) -> Tensor:
        ctx.codec = codec
        return arriving

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return there_and_back(gradients[0], "none" if ctx.codec == "none" else "int8"), None, None


class KeptBySample:
    """What arrives of outputs by sample, worked out one by one; ``places`` are the names of an iteration's samples."""

    def __init__(self, tree: Phase) -> None:
        self.tree, self.kept = tree, dict[tuple[object, ...], Tensor]()
        self.nodes = {each.id: each.node for each in tree.instances}

    def root(self, name: str | None) -> str | None:
        into = {each.id: each.into for each in self.tree.instances}
        return name if name is None or into[name] is None else self.root(into[name])

    def begin(self, numbers: list[int]) -> None:
        owners = [feed.node for feed in self.tree.sources for _ in range(feed.samples)]
        self.names = list(zip(owners, numbers, strict=True))

    def first_places(self, channel: tuple[object, ...], reach: dict[str, list[int]]) -> dict[object, int]:
        """For each sample, the first place in the batch that comes through a channel."""
        own = [each.id for each in self.tree.instances if self.channel(each.id) == channel]
        places = sorted(place for name in own for place in reach[name])
        return {self.names[place]: place for place in reversed(places)}

    def channel(self, name: str) -> tuple[object, ...]:
        each = next(i for i in self.tree.instances if i.id == name)
        return self.root(name), each.node, self.nodes.get(each.into or ""), each.layers[1]

    def arriving(self, k: int, values: Tensor, places: list[int], reach: dict[str, list[int]]) -> Tensor:
        each = self.tree.instances[k]
        channel = self.channel(each.id)
        first, arriving = self.first_places(channel, reach), values.clone()
        keys = [(*channel, self.names[place]) if first[self.names[place]] == place else None for place in places]
        known = [row for row, key in enumerate(keys) if key is not None and key in self.kept]
        new = [row for row in range(len(keys)) if row not in known]
        if new:
            arriving[new] = there_and_back(values[new], "int8")
        if known:
            before = torch.stack([self.kept[keys[row]] for row in known])  # type: ignore[index]
            arriving[known] = before + there_and_back(values[known] - before, "int4")
        self.kept |= {key: row.clone() for key, row in zip(keys, arriving, strict=True) if key is not None}
        return arriving


class CodedGroups(Groups):
    """An iteration of a tree in one process, with every output coded that travels."""

    past: KeptBySample

    def output(self, k: int) -> tuple[Tensor, list[int]]:
        values, places = super().output(k)
        each = self.phase.instances[k]
        if each.into is None or self.past.nodes[each.into] == each.node:
            return values, places
        keeps = each.codec == "int4-delta"
        plain = values.detach()
        arriving = self.past.arriving(k, plain, places, self.reach) if keeps else there_and_back(plain, each.codec)
        return Coded.apply(values, arriving, each.codec), places

    @property
    def reach(self) -> dict[str, list[int]]:
        """The places of the samples that come to each instance."""
        found, begin = dict[str, list[int]](), 0
        for feed in self.phase.sources:
            found.setdefault(feed.into, []).extend(range(begin, begin + feed.samples))
            begin += feed.samples
        for each in sorted(self.phase.instances, key=lambda i: i.layers[0]):
            if each.into is not None:
                found.setdefault(each.into, []).extend(found[each.id])
        return found


def coded_alone(rig: Rig, tree: Phase, iterations: int, *, anew: int | None = None) -> tuple[list[float], Weights]:
    """One process that codes the same way; ``anew``: from this iteration on, with nothing kept."""
    layers = [replace_dropout(layer, str(number)) for number, layer in enumerate(rig.fresh(), 1)]
    named = [pair for layer in layers for pair in layer.named_parameters()]
    updates = PlainUpdates({name: w for name, w in named if name not in rig.options.freeze}, rig.options, iterations)
    dealt = len(tree.sources) > 1 and keeps_outputs(tree)
    batches = (DealtBatches if dealt else Batches)(len(rig.data), tree.batch, rig.options.seed)
    losses, past = [], KeptBySample(tree)
    for number in range(iterations):
        past = KeptBySample(tree) if number == anew else past
        drawn = batches.indices(number)
        drawn = drawn[batches.order(number)] if isinstance(batches, DealtBatches) else drawn
        past.begin(drawn.tolist())
        inputs, labels = rig.data.batch(drawn)
        groups = CodedGroups(rig, tree, layers, labels, number)
        groups.past = past
        lost = groups.loss(inputs)
        updates.step(lost)
        losses.append(lost.item())
    return losses, {name: value for layer in layers for name, value in layer.state_dict().items()}


def without_dropout(rig: Rig) -> Rig:
    """Where batches are dealt, dropout is drawn by other places than those of the tree's order."""
    rig.layers = [
        nn.Sequential(*[each for each in layer.modules() if isinstance(each, (nn.Linear, nn.Tanh))])
        if any(isinstance(each, nn.Dropout) for each in layer.modules())
        else layer
        for layer in rig.layers
    ]
    return rig


@pytest.mark.parametrize("codec", ["int4-delta", "any"])
@pytest.mark.parametrize("seed", mostly_thorough(range(30), 10))
def test_any_tree_equals_one_process_that_codes_the_same_way(seed: int, codec: str) -> None:
    rig, tree, known = random_rig(seed)
    rig, draw = without_dropout(rig), random.Random(seed)
    codecs = ["none", "int8", "int4", "int4-delta"] if codec == "any" else [codec]
    coded = [each.model_copy(update={"codec": draw.choice(codecs)}) for each in tree.instances]
    tree = tree.model_copy(update={"instances": tuple(coded)})
    losses, held = rig.trained(tree, known, 15)
    expected_losses, expected = coded_alone(rig, tree, 15)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    for node_name, weights in held.items():
        assert relatively_off(weights, expected) <= 1e-9, node_name


def small(many: int = 20, dtype: str = "float64") -> Owners:
    torch.manual_seed(3)
    layers: list[nn.Module] = [nn.Sequential(nn.Linear(5, 130), nn.Tanh()), nn.Linear(130, 6), nn.Linear(6, 3)]
    rig = Owners(layers, (5,), owned={"a": Toy((5,), 3, many)})
    rig.options = replace(rig.options, dtype=dtype)
    return rig


def chain(samples: int = 5) -> Phase:
    return phase(
        source("a", samples, "I"),
        instance("I", 1, 1, "a", "J", codec="int4-delta"),
        instance("J", 2, 2, "b", "K", codec="int4-delta"),
        instance("K", 3, 3, "c"),
    )


@pytest.mark.parametrize("many", [20, 3])
def test_the_bytes_of_first_and_later_epochs_are_those_that_are_sent(many: int) -> None:
    """With 3 samples a batch of 5 has some twice: one of each is kept, the others are always sent whole."""
    rig, tree, owner = small(many, "float32"), chain(), {"tier": "device", "source": {"samples": many, "data": "own"}}
    rig.trained(tree, cluster(link("a", "b"), link("b", "c"), a=owner, b=node(), c=node()), iterations=8)
    sent = [message.numel() for sender, message in rig.wire.sent if sender == "a"]
    first, later = 5 * 130 + 4 * 130 + 5 * 8, -(-5 * 130 // 2) + 4 * -(-5 * 130 // 64) + 5 * 8
    if many == 20:
        assert sent == 4 * [first] + 4 * [later]
    else:
        twice = 2 * 130 + 4 * 130 + 3 * 65 + 4 * -(-3 * 130 // 64) + 5 * 8
        assert sent == [first, *7 * [twice]]


def test_the_price_tells_the_first_epoch_from_later_ones() -> None:
    rig, tree = small(20, "float32"), chain()
    known = cluster(link("a", "b"), link("b", "c"), a=node(20), b=node(), c=node())
    price = rig.evaluator(known).price(tree)
    rig.trained(tree, known, iterations=8)
    sent = [message.numel() for _, message in rig.wire.sent]
    assert price.first_epoch.sent_bytes == sum(sent[: len(sent) // 2])
    assert price.epoch.sent_bytes == sum(sent[len(sent) // 2 :])


def test_both_ends_keep_as_much_as_is_estimated() -> None:
    tree, evaluator = chain(), small(20, "float32").evaluator(WORLD)
    kept = evaluator.kept_output_bytes(tree)
    one, other = (60 * (4 * many + KEPT_OUTPUT_BYTES) for many in (130, 6))
    assert kept == {"a": one, "b": one + other, "c": other}
    plain = tree.model_copy(update={"instances": tuple(i.model_copy(update={"codec": "int4"}) for i in tree.instances)})
    peaks, without = evaluator.peak_bytes(tree), evaluator.peak_bytes(plain)
    assert {name: peaks[name] - without[name] for name in peaks} == kept


def test_microbatches_between_the_same_nodes_share_what_they_keep() -> None:
    tree = phase(
        source("a", 3, "I"),
        source("a", 2, "L"),
        instance("I", 1, 1, "a", "J", codec="int4-delta"),
        instance("L", 1, 1, "a", "J", codec="int4-delta"),
        instance("J", 2, 3, "b"),
    )
    (channel,) = keeping_channels(tree)
    assert (channel.instances, channel.sources) == ((0, 1), (0, 1))
    rig = small(20, "float32")
    rig.trained(tree, WORLD, iterations=8)
    sent = [message.numel() for sender, message in rig.wire.sent if sender == "a"]
    assert max(sent[8:]) < min(sent[:8]), "in the second epoch all have come through one or the other"


def test_a_run_that_is_resumed_begins_with_nothing_kept_at_both_ends(tmp_path: Path) -> None:
    owner = {"tier": "device", "source": {"samples": 54, "data": DATA}}
    known = cluster(link("a", "b"), link("b", "c"), a=owner, b=node(), c=node())
    rig = Rig(small().layers, (5,))
    stopped = Forest(rig, chain(9), known, tmp_path)
    stopped.watch = lambda training, update: training.stop() if update.iteration == 8 else None
    assert stopped.trained(iterations=14)[0].iterations == 8
    outcome, found = Forest(rig, chain(9), known, tmp_path).trained(resume=True, iterations=14)
    assert outcome.iterations == 14
    rig.data = stopped.job().own_data[DATA].train  # type: ignore[misc]
    _, expected = coded_alone(rig, chain(9), 14, anew=8)
    assert relatively_off(found, expected) <= 1e-9
    _, never = coded_alone(rig, chain(9), 14)
    assert relatively_off(found, never) > 1e-9


@pytest.mark.parametrize("more", [{"sync": "epoch"}, {"sync": "async"}, {"sync": "every", "every": 4}])
def test_under_every_sync_outputs_are_kept_from_epoch_to_epoch(more: dict[str, Any], tmp_path: Path) -> None:
    owner = {"tier": "device", "source": {"samples": 54, "data": DATA}}
    known = cluster(link("a", "b"), link("b", "c"), a=owner, b=node(), c=node())
    tree = chain(9).model_copy(update={**more, "server": "c"})
    rig = Rig(small().layers, (5,))
    testbed = RecordingGround()
    outcome, _ = Forest(rig, tree, known, tmp_path, testbed).trained(epochs=3)
    assert outcome.iterations == 18
    first, later = 9 * 130 + 8 * 130 + 9 * 8, -(-9 * 130 // 2) + 8 * -(-9 * 130 // 64) + 9 * 8
    sent = [message.numel() for sender, message in testbed.wire.sent if sender == "a"]
    assert [size for size in sent if size in (first, later)] == 6 * [first] + 12 * [later]
