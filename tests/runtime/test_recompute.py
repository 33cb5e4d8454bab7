"""Recomputation changes memory and time, and nothing else: weights and buffers are the same to the last bit.

Only where blocks share a tensor or a weight may its gradients be added in another order; here none is used three times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from palmette.cost.steps import Kind
from palmette.runtime.options import Options
from palmette.runtime.worker.compute import Compute
from palmette.spec.plan import Phase
from palmette.zoo.recipes.objective import classification
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.module_rig import BATCH, CLUSTER, ModuleRig
from tests.runtime.rig import Rig, Weights
from tests.runtime.test_equality import TREES, images, random_rig, three
from tests.runtime.trees import Forest


def recomputed(tree: Phase, chosen: Callable[[int], bool] = lambda _: True) -> Phase:
    """The tree with some of its instances recomputing."""
    instances = [each.model_copy(update={"recompute": chosen(k)}) for k, each in enumerate(tree.instances)]
    return tree.model_copy(update={"instances": tuple(instances)})


def blocks(rig: Rig, tree: Phase, known: Any) -> int:
    """How many blocks are computed again in an iteration."""
    programs = rig.programs(tree, known).values()
    return sum(each.what is Kind.RECOMPUTE for program in programs for each in program.operations)


def assert_same(rig: Rig, tree: Phase, other: Phase, known: Any, iterations: int = 3) -> dict[str, Weights]:
    losses, held = rig.trained(tree, known, iterations)
    other_losses, other_held = rig.trained(other, known, iterations)
    assert losses == other_losses
    for name, weights in held.items():
        assert weights.keys() == other_held[name].keys()
        assert all(torch.equal(weights[key], other_held[name][key]) for key in weights), name
    return held


def test_any_tree_with_any_instances_recomputing_is_the_same() -> None:
    most = 0
    for seed in range(400, 408):
        rig, tree, known = random_rig(seed)
        draw = random.Random(seed)
        other = recomputed(tree, lambda _, draw=draw: draw.random() < 0.7)  # type: ignore[misc]
        assert_same(rig, tree, other, known)
        most = max(most, blocks(rig, other, known) - sum(each.recompute for each in other.instances))
    assert most > 1, "some instances have several blocks"


@pytest.mark.parametrize("statistics", ["parts", "whole"])
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_batch_norm_and_its_running_statistics_are_the_same(tree: Phase, statistics: str) -> None:
    tree = tree.model_copy(update={"batch_norm": statistics})
    assert_same(images(batch_norm=True), tree, recomputed(tree), three())


def deep(*layers: nn.Module) -> ModuleRig:
    torch.manual_seed(2)
    return ModuleRig(nn.Sequential(*layers), torch.randn(24, 4))


def whole(rig: Rig, **more: Any) -> Phase:
    return phase(source("a", BATCH, "all"), instance("all", 1, len(rig.layers), "b", **more))


def test_a_whole_network_falls_into_blocks() -> None:
    rig = deep(*[part for _ in range(8) for part in (nn.Linear(4, 4), nn.Tanh())], nn.Linear(4, 2))
    assert blocks(rig, whole(rig, recompute=True), CLUSTER) > 2
    assert_same(rig, whole(rig), whole(rig, recompute=True), CLUSTER)


class Noise(nn.Module):
    """Draws from PyTorch's own random numbers, and counts its calls in a buffer that it uses."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, values: Tensor) -> Tensor:
        self.calls += 1
        return functional.dropout(values, 0.3) * (1 + self.calls / 10)


def test_random_numbers_and_buffers_are_those_of_the_first_forward() -> None:
    rig = Rig([nn.Sequential(nn.Linear(5, 5), Noise(), nn.Tanh()) for _ in range(7)] + [nn.Linear(5, 3)], (5,))
    tree = phase(source("a", 6, "all"), instance("all", 1, 8, "a"))
    assert len(rig.shapes) == 9  # worked out by a forward, which draws as well
    found = []
    for each in (tree, recomputed(tree)):
        torch.manual_seed(7)
        found.append(rig.trained(each, three(), iterations=4))
    assert found[0][0] == found[1][0]
    plain, again = found[0][1]["a"], found[1][1]["a"]
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    assert again["l3.1.calls"] == 4


class Skipping(nn.Module):
    """Several tensors pass most cuts, one of them of integers; the first and the last layer share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 6)
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(6)])
        self.drop = nn.Dropout(0.2)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        first = values = self.words(words)
        for layer in self.layers:
            values = torch.tanh(self.drop(layer(values))) * mask[..., None] + first
        return functional.linear(values, self.words.weight)


def test_bundles_and_tied_weights_are_the_same() -> None:
    torch.manual_seed(5)
    rig = ModuleRig(Skipping(), (torch.randint(0, 9, (24, 5)), torch.randint(0, 2, (24, 5))))
    assert rig.ties
    for tree in (whole(rig), halves(rig)):
        assert blocks(rig, recomputed(tree), CLUSTER) > len(tree.instances)
        assert_same(rig, tree, recomputed(tree), CLUSTER)


def halves(rig: Rig) -> Phase:
    """Two parts of the batch on two nodes up to the middle of the network, then together."""
    middle, last = len(rig.layers) // 2, len(rig.layers)
    return phase(
        source("a", 2, "x"),
        source("a", BATCH - 2, "y"),
        instance("x", 1, middle, "a", "z"),
        instance("y", 1, middle, "b", "z"),
        instance("z", middle + 1, last, "c"),
    )


def test_frozen_layers_are_not_computed_again() -> None:
    rig = deep(*[part for _ in range(6) for part in (nn.Linear(4, 4), nn.Tanh())], nn.Linear(4, 2))
    for layer in rig.module[:6]:  # type: ignore[index]
        layer.requires_grad_(False)
    rig = ModuleRig(rig.module, torch.randn(24, 4))
    again = whole(rig, recompute=True)
    (program,) = [each for name, each in rig.programs(again, CLUSTER).items() if name == "b"]
    runs = [run for each in program.operations if each.what is Kind.RECOMPUTE for run in each.layers]
    assert min(first for first, _ in runs) == 7
    assert_same(rig, whole(rig), again, CLUSTER)
    assert_same(rig, halves(rig), recomputed(halves(rig)), CLUSTER)


def test_half_precision_is_the_same() -> None:
    rig = Rig([nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(7)] + [nn.Linear(5, 3)], (5,))
    rig.options = Options(lr=0.05, mixed_precision="bf16")
    tree = phase(source("a", 6, "x"), instance("x", 1, 5, "a", "y"), instance("y", 6, 8, "b"))
    assert_same(rig, tree, recomputed(tree), three())


def test_a_gradient_that_is_clipped_and_accumulated_is_the_same() -> None:
    rig = Rig([nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(7)] + [nn.Linear(5, 3)], (5,))
    rig.options = replace(rig.options, clip_norm=0.1, accumulate=2, optimizer="adam")
    tree = phase(source("a", 6, "x"), instance("x", 1, 5, "a", "y"), instance("y", 6, 8, "b"))
    assert_same(rig, tree, recomputed(tree), cluster(link("a", "b"), a=node(60), b=node()), iterations=4)


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The most bytes that tensors made inside hold at once, and those that they hold now."""

    def __init__(self, before: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._before = {each.untyped_storage().data_ptr() for each in before}
        self._alive: dict[StorageWeakRef, int] = {}
        self.most = 0

    @property
    def now(self) -> int:
        self._alive = {ref: size for ref, size in self._alive.items() if not ref.expired()}  # type: ignore[no-untyped-call]
        return sum(self._alive.values())

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, Tensor):
                storage = each.untyped_storage()
                if storage.data_ptr() not in self._before:
                    self._alive[StorageWeakRef(storage)] = storage.nbytes()  # type: ignore[no-untyped-call]
        self.most = max(self.most, self.now)
        return made


SAMPLES, WIDE, DEPTH = 128, 32, 65


def measured(rig: Rig, tree: Phase) -> tuple[int, int]:
    """Bytes beside the weights: those between forward and backward, and the most at any time, gradients included."""
    (all_layers,) = tree.instances
    runs = rig.evaluator(three()).sizes().blocks(all_layers.layers) if all_layers.recompute else ()
    layers = dict(enumerate(rig.fresh(), 1))
    weights = [weight for layer in layers.values() for weight in layer.parameters()]
    compute = Compute(tree, "a", layers, rig.options, objective=classification(3))
    samples, labels = torch.randn(SAMPLES, WIDE), torch.zeros(SAMPLES, 8, dtype=torch.uint8)
    with LiveBytes([*weights, samples, labels]) as live:
        compute.forward(0, [(samples,)], [labels], 0, runs)
        between = live.now
        for _ in runs or [None]:
            if runs:
                compute.recompute(0)
            compute.backward(0, None)
    return between, live.most


def test_the_memory_of_a_deep_network_falls_and_stays_below_the_estimate() -> None:
    layers = [part for _ in range(DEPTH // 2) for part in (nn.Linear(WIDE, WIDE), nn.Tanh())]
    rig = Rig([*layers, nn.Linear(WIDE, 3)], (WIDE,), options=Options())
    trees = [phase(source("a", SAMPLES, "all"), instance("all", 1, DEPTH, "a", recompute=on)) for on in (False, True)]
    (kept, most), (kept_again, most_again) = (measured(rig, tree) for tree in trees)
    assert kept_again < 0.3 * kept
    assert most_again < 0.5 * most
    weights = sum(weight.nbytes for layer in rig.fresh() for weight in layer.parameters())
    plain, again = (rig.evaluator(three()).peak_bytes(tree)["a"] - weights for tree in trees)
    assert most <= plain
    assert most_again <= again < 0.4 * plain


@pytest.mark.parametrize("sync", ["epoch", "async"])
@pytest.mark.parametrize("server", ["a", "c"])
def test_replicas_with_weights_of_their_own_are_the_same(sync: str, server: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    layers = [nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Tanh()) for _ in range(7)]
    rig = Rig([*layers, nn.Linear(5, 3)], (5,), options=Options(optimizer="adam", dtype="float64"))
    # One tree, so that the order of steps does not depend on time.
    parts = [source("a", 6, "A"), instance("A", 1, 6, "a", "B"), instance("B", 7, 8, "c")]
    tree = phase(*parts, sync=sync, server=server)
    known = cluster(link("a", "c", 1e9), a=node(30), c=node())
    found = []
    for name, each in (("plain", tree), ("again", recomputed(tree))):
        (tmp_path / name).mkdir()
        found.append(Forest(rig, each, known, tmp_path / name).trained(iterations=8)[1])
    plain, again = found
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    assert int(again["l2.1.num_batches_tracked"]) == 8
