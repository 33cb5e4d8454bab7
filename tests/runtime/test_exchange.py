"""Coded exchanges of gradients: as one process that codes the same way, the same on all replicas, over any break."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from palmette.compress.codec import exchange_coder
from palmette.compress.error_feedback import saved_name
from palmette.compress.kept_indices import carried
from palmette.compress.pruning import prune
from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import iteration
from palmette.cost.replicas import replicated_layers
from palmette.cost.routes import Routes
from palmette.cost.steps import Kind
from palmette.runtime.data.batches import Batches
from palmette.runtime.options import Options
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.dropout import replace_dropout
from palmette.runtime.worker.gradient_coding import GradientCoding
from palmette.spec.cluster import Cluster
from palmette.spec.exchange import known_exchange
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.owners import random_owners
from tests.runtime.plain import PlainUpdates
from tests.runtime.rig import Groups, Rig, Weights, relatively_off
from tests.runtime.test_equality import random_rig
from tests.runtime.trees import Forest
from tests.thorough import mostly_thorough

CODECS = ["bf16", "int8", "topk:0.1", "lowrank:1"]


class _OwnWeights(Groups):
    """An iteration in which every instance has weights of its own, so that each has a gradient of its own."""

    weights: Mapping[int, Mapping[int, Mapping[str, Tensor]]]

    def passed(self, k: int, n: int, values: Tensor) -> Tensor:
        layer = self.layers[n - 1]
        own = {**dict(layer.named_buffers()), **self.weights[k][n]}
        return torch.func.functional_call(layer, own, (values,))


class CodedProcess:
    """One process that adds up the gradients of a tree's nodes as the exchange codes them."""

    def __init__(self, rig: Rig, tree: Phase, known: Cluster, iterations: int) -> None:
        self.rig, self.tree = rig, tree
        self.layers = [replace_dropout(layer, str(number)) for number, layer in enumerate(rig.fresh(), 1)]
        self.places = {
            n: run.place
            for run in replicated_layers(tree, Routes(known))
            for n in range(run.layers[0], run.layers[1] + 1)
        }
        self.coder = exchange_coder(tree.exchange)
        self.memories: dict[tuple[str, str], dict[str, Tensor]] = {}
        named = [pair for layer in self.layers for pair in layer.named_parameters()]
        self.trained = {name: w for name, w in named if name not in rig.options.freeze and w.requires_grad}
        self.updates = PlainUpdates(self.trained, rig.options, iterations)

    def run(self, iterations: int) -> Weights:
        batches = Batches(len(self.rig.data), self.tree.batch, self.rig.options.seed)
        for number in range(iterations):
            inputs, labels = self.rig.data.batch(batches.indices(number))
            found = self.gradients(inputs, labels, number)
            for number_of_layer, layer in enumerate(self.layers, 1):
                for name, weight in layer.named_parameters():
                    if name in self.trained:
                        weight.grad = self.exchanged(name, number_of_layer, found)
            self.updates.step_with_gradients()
        return {name: value for layer in self.layers for name, value in layer.state_dict().items()}

    def gradients(self, inputs: Tensor, labels: Tensor, number: int) -> dict[tuple[int, str], Tensor]:
        groups = _OwnWeights(self.rig, self.tree, self.layers, labels, number)
        groups.weights = {
            k: {
                n: {name: w.detach().clone().requires_grad_() for name, w in self.layers[n - 1].named_parameters()}
                for n in range(each.layers[0], each.layers[1] + 1)
            }
            for k, each in enumerate(self.tree.instances)
        }
        groups.loss(inputs).backward()
        return {
            (k, name): torch.zeros_like(w) if w.grad is None else w.grad
            for k, own in groups.weights.items()
            for layer in own.values()
            for name, w in layer.items()
        }

    def exchanged(self, name: str, number: int, found: Mapping[tuple[int, str], Tensor]) -> Tensor:
        by_node: dict[str, Tensor] = {}
        for k, each in enumerate(self.tree.instances):
            if (k, name) in found:
                by_node[each.node] = by_node[each.node] + found[k, name] if each.node in by_node else found[k, name]
        if number not in self.places or set(by_node) == {self.places[number]} or len(by_node) == 1:
            return next(iter(by_node.values()))
        place = self.places[number]
        sent = [own if at == place else self.coded(name, at, own) for at, own in by_node.items()]
        return self.coded(name, place, torch.stack(sent).sum(0))

    def coded(self, name: str, at: str, values: Tensor) -> Tensor:
        memory = self.memories.setdefault((name, at), {})
        wanted = values + memory.get("left", torch.zeros_like(values))
        arriving = self.coder.extract(self.coder.compress(wanted, memory), tuple(values.shape), values.dtype)
        memory["left"] = wanted - arriving
        return arriving


def assert_coded_equal(rig: Rig, tree: Phase, known: Cluster, iterations: int = 8) -> None:
    _, held = rig.trained(tree, known, iterations)
    expected = CodedProcess(rig, tree, known, iterations).run(iterations)
    first: Weights = {}
    for node_name, weights in held.items():
        assert relatively_off(weights, expected) <= 1e-9, node_name
        for name, value in weights.items():
            assert torch.equal(first.setdefault(name, value), value), "replicas are equal to the last bit"


@pytest.mark.parametrize("text", CODECS)
@pytest.mark.parametrize("seed", mostly_thorough(range(12), 4))
def test_any_tree_equals_one_process_that_codes_the_same_way(seed: int, text: str) -> None:
    rig, tree, known = random_rig(seed)
    assert_coded_equal(rig, tree.model_copy(update={"exchange": known_exchange(text)}), known)


REPLICAS = (
    source("a", 4, "I"),
    source("b", 3, "J"),
    source("c", 5, "K"),
    instance("I", 1, 3, "a"),
    instance("J", 1, 3, "b"),
    instance("K", 1, 3, "c"),
)


def world() -> Cluster:
    return cluster(link("a", "b"), link("b", "c"), a=node(100), b=node(100), c=node(100))


def replicas(text: str, **more: str) -> Phase:
    return phase(*REPLICAS, exchange=known_exchange(text).model_dump(), **more)


def wide(**options: object) -> Rig:
    torch.manual_seed(4)
    layers = [nn.Sequential(nn.Linear(5, 24), nn.Tanh()), nn.Sequential(nn.Linear(24, 18), nn.Tanh()), nn.Linear(18, 3)]
    return Rig(layers, (5,), options=Options(**{"dtype": "float64", "optimizer": "momentum", "lr": 0.02, **options}))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", CODECS)
def test_replicas_of_the_whole_network_equal_one_process(text: str) -> None:
    assert_coded_equal(wide(), replicas(text), world())
    assert_coded_equal(wide(), replicas(text, meet="b"), world())
    assert_coded_equal(wide(clip_norm=0.1), replicas(text), world())


def test_without_a_codec_nothing_changes() -> None:
    _, plain = wide().trained(phase(*REPLICAS), world(), 6)
    _, said = wide().trained(replicas("none"), world(), 6)
    assert all(torch.equal(value, said[at][name]) for at, own in plain.items() for name, value in own.items())


def test_error_feedback_comes_near_where_a_codec_alone_does_not() -> None:
    """With a twentieth of the numbers in a message, training falls as it does with all of them, only later."""
    losses, _ = wide().trained(replicas("topk:0.05"), world(), 60)
    plain, _ = wide().trained(phase(*REPLICAS), world(), 60)
    assert sum(losses[-5:]) < sum(losses[:5])
    assert sum(losses[-5:]) < 1.15 * sum(plain[-5:])


@pytest.mark.parametrize(
    ("text", "optimizer"), [("bf16", "adam"), ("int8", "momentum"), ("topk:0.1", "adam"), ("lowrank:1", "momentum")]
)
def test_a_run_that_is_resumed_equals_one_that_was_not(text: str, optimizer: str, tmp_path: Path) -> None:
    def forest(name: str) -> Forest:
        (tmp_path / name).mkdir(exist_ok=True)
        return Forest(wide(optimizer=optimizer), replicas(text), world(), tmp_path / name)

    _, whole = forest("whole").trained(iterations=9)
    stopped = forest("parts")
    stopped.watch = lambda training, update: training.stop() if update.iteration == 4 else None
    outcome, _ = stopped.trained(iterations=9)
    assert (outcome.ended, outcome.iterations) == ("stopped", 4)
    outcome, found = forest("parts").trained(resume=True, iterations=9)
    assert (outcome.ended, outcome.iterations) == ("done", 9)
    assert all(torch.equal(whole[name], found[name]) for name in whole)


def _coding(tree: Phase, at: str, layers: Mapping[int, nn.Module] | None = None) -> GradientCoding:
    known = dict(enumerate(wide().fresh(), 1)) if layers is None else layers
    compute = Compute(tree, at, known, Options(dtype="float64"))
    return GradientCoding(tree, at, compute.held, compute.dtype)


def test_what_a_node_that_left_had_kept_is_added_by_the_first_that_holds_the_layer() -> None:
    shape = (24, 5)
    kept = {"a": 1.0, "b": 2.0, "c": 4.0}
    state = {saved_name("l1.0.weight", at, "residual"): torch.full(shape, each).double() for at, each in kept.items()}
    left = phase(source("a", 4, "I"), source("b", 3, "J"), *REPLICAS[3:5], exchange={"codec": "int8"})
    size = sum(weight.numel() for weight in wide().fresh()[0].parameters())
    for tree, expected in ((replicas("topk"), (1.0, 2.0)), (left, (5.0, 2.0)), (replicas("none"), (1.0, 2.0))):
        for at, own in zip("ab", expected, strict=True):
            coding = _coding(tree, at)
            coding.load(state)
            found = coding.with_residual(1, torch.zeros(size, dtype=torch.float64))
            assert set(found[: 24 * 5].tolist()) == {own}
            assert not coding.with_residual(1, torch.zeros(size, dtype=torch.float64)).any(), "it is added once"


@pytest.mark.parametrize("text", CODECS)
def test_what_was_left_out_goes_on_in_a_pruned_network(text: str) -> None:
    """What is left of it for the weights that remain, once; and the next gradients are coded in their new shape."""
    tree, layers = replicas(text), dict(enumerate(wide().fresh(), 1))
    coding = _coding(tree, "a", layers)
    gradients = torch.randn(24 * 18 + 18, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    _, arriving = coding.compress(2, gradients)
    kept = coding.state()
    whole = nn.Sequential(OrderedDict((f"l{number}", layer[0]) for number, layer in layers.items()))
    pruned = prune(whole, torch.zeros(2, 5, dtype=torch.float64), 0.4)
    names = [name for name, _ in layers[2].named_parameters()]
    lost = dict(zip(names, torch.split(gradients - arriving, [24 * 18, 18]), strict=True))
    expected = [pruned.places[name].taken(lost[name].view(pruned.places[name].before)).flatten() for name in names]
    smaller = _coding(tree, "a", layers)
    smaller.load(carried(kept, pruned.places))
    size = sum(each.numel() for each in expected)
    assert 0 < size < gradients.numel()
    found = smaller.with_residual(2, torch.zeros(size, dtype=torch.float64))
    assert found.abs().max() > 0
    assert torch.equal(found, torch.cat(expected))
    message, _ = smaller.compress(2, found)
    assert message.numel() == smaller.bytes_of([2])


@pytest.mark.parametrize("text", ["none", *CODECS, "topk:0.01", "lowrank:4"])
@pytest.mark.parametrize("seed", mostly_thorough(range(12), 4))
def test_the_estimate_counts_the_bytes_that_are_exchanged(text: str, seed: int) -> None:
    rig, tree, known = random_owners(seed)
    rig.options = replace(rig.options, dtype="float32")
    tree = tree.model_copy(update={"exchange": known_exchange(text)})
    rig.trained(tree, known, iterations=1)
    evaluator = with_shapes(rig, known)
    made = iteration(tree, evaluator.sizes(), evaluator.routes)
    transfers = [(step, size) for step, size in zip(made.steps, made.size_bytes, strict=True) if step.to is not None]
    for channel, sent in rig.wire.sizes.items():
        step, size = transfers[channel.number]
        if step.kind in (Kind.PUSH, Kind.PULL):
            assert size == sent, step


def with_shapes(rig: Rig, known: Cluster) -> Evaluator:
    evaluator = rig.evaluator(known)
    shapes = [tuple(tuple(w.shape) for w in layer.parameters()) for layer in rig.layers]
    layers = [
        layer.model_copy(update={"weight_shapes": own})
        for layer, own in zip(evaluator.profile.layers, shapes, strict=True)
    ]
    evaluator.profile = evaluator.profile.model_copy(update={"layers": tuple(layers)})
    return evaluator
