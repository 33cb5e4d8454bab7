"""Backward in halves (``order: zero-bubble``) leaves the weights of whole backward passes, with all that plans ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.cost import buckets
from palmette.cost.steps import Kind
from palmette.runtime.options import Options
from palmette.runtime.worker.weight_half import input_half
from palmette.spec.plan import Phase
from tests.cost.small import instance, phase, source
from tests.runtime.module_rig import BATCH, CLUSTER, ModuleRig
from tests.runtime.rig import Rig, off
from tests.runtime.test_divisors import padded
from tests.runtime.test_equality import HIERARCHY, assert_equal, images, random_rig, three
from tests.zoo import odd_networks as odd

HALVES = {Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHTS}


def halved(tree: Phase, **more: object) -> Phase:
    return tree.model_copy(update={"order": "zero-bubble", **more})


def pipeline(*, recompute: bool = False, first: str = "a") -> Phase:
    """Five layers on three nodes, for each of three microbatches."""
    parts = []
    for m in range(3):
        parts += [source("a", 4, f"a{m}"), instance(f"a{m}", 1, 2, first, f"b{m}")]
        parts += [instance(f"b{m}", 3, 4, "b", f"c{m}", recompute=recompute), instance(f"c{m}", 5, 5, "c")]
    return phase(*parts)


def kinds(rig: Rig, tree: Phase) -> set[Kind]:
    return {each.what for part in rig.parts(tree, three()) for p in part.programs.values() for each in p.operations}


def optimized(rig: Rig, **options: Any) -> Rig:
    rig.options = replace(rig.options, **options)
    return rig


OPTIONS: dict[str, dict[str, Any]] = {
    "adam": {"optimizer": "adam", "lr": 0.01},
    "accumulated": {"accumulate": 3},
    "clipped": {"clip_norm": 0.02},
    "frozen in the middle": {"freeze": ("l3.0.0.weight", "l3.0.0.bias")},
    "frozen at the end": {"freeze": ("l5.weight", "l5.bias")},
    "frozen at the beginning": {"freeze": ("l1.0.weight", "l1.0.bias")},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("tree", [pipeline(), HIERARCHY], ids=["pipeline", "hierarchy"])
def test_halves_equal_one_process(tree: Phase, options: dict[str, Any]) -> None:
    rig = optimized(images(), **options)
    assert kinds(rig, halved(tree)) >= HALVES
    assert_equal(rig, halved(tree), three(), 7)


def test_replicas_of_pipelines_equal_one_process() -> None:
    both = pipeline()
    other = pipeline(first="c")
    renamed = [
        each.model_copy(update={"id": f"other {each.id}", "into": each.into and f"other {each.into}"})
        for each in other.instances
    ]
    sources = [each.model_copy(update={"into": f"other {each.into}"}) for each in other.sources]
    tree = both.model_copy(
        update={"instances": (*both.instances, *renamed), "sources": (*both.sources, *sources), "meet": "b"}
    )
    assert_equal(images(), halved(Phase.model_validate(tree.model_dump())), three(), 7)


def test_halves_with_batch_norm_equal_one_process_with_the_same_groups() -> None:
    rig, tree = images(batch_norm=True), halved(pipeline())
    assert kinds(rig, tree) >= HALVES
    losses, held = rig.trained(tree, three(), 7)
    expected_losses, expected = rig.grouped(tree, 7)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    assert all(off(weights, expected) <= 1e-10 for weights in held.values())


def test_over_the_whole_batch_backward_stays_whole() -> None:
    rig, tree = images(batch_norm=True), halved(pipeline(), batch_norm="whole")
    assert not kinds(rig, tree) & HALVES
    assert_equal(rig, tree, three(), 7)


def test_one_that_recomputes_goes_back_whole_beside_others_in_halves() -> None:
    rig, tree = images(), halved(pipeline(recompute=True))
    assert kinds(rig, tree) >= {*HALVES, Kind.RECOMPUTE}
    assert_equal(rig, tree, three(), 7)


@pytest.mark.parametrize("least_bytes", [1.0, buckets.LEAST_BYTES])
def test_gradients_in_buckets_and_halves_equal_one_process(least_bytes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all that an instance holds leaves at once: after the gradients of its weights."""
    monkeypatch.setattr(buckets, "LEAST_BYTES", least_bytes)
    for seed in range(6):
        rig, tree, known = random_rig(seed)
        assert_equal(rig, halved(tree, overlap=True), known, 6)


def test_a_divisor_that_varies_leaves_backward_whole() -> None:
    rig, tree = padded("padding"), halved(pipeline())
    assert not kinds(rig, tree) & HALVES
    assert_equal(rig, tree, three(), 5)


def over_three(depth: int, cuts: tuple[int, int], order: str) -> Phase:
    """A network over three nodes, cut after two of its layers, for two microbatches."""
    parts = []
    for m in range(2):
        parts += [source("a", BATCH // 2, f"a{m}"), instance(f"a{m}", 1, cuts[0], "a", f"b{m}")]
        parts.append(instance(f"b{m}", cuts[0] + 1, cuts[1], "b", f"c{m}"))
        parts.append(instance(f"c{m}", cuts[1] + 1, depth, "c"))
    return phase(*parts, order=order)


@pytest.mark.parametrize("cuts", [(1, 2), (1, 4), (2, 3)])
def test_tied_weights_in_halves_equal_one_process(cuts: tuple[int, int]) -> None:
    torch.manual_seed(0)
    rig = ModuleRig(odd.TiedInTheMiddle(), torch.rand(24, 6))
    depth = len(rig.layers)
    whole = rig.trained(over_three(depth, cuts, "fifo"), CLUSTER, 5)
    found = rig.trained(over_three(depth, cuts, "zero-bubble"), CLUSTER, 5)
    assert found[0] == pytest.approx(whole[0], rel=1e-9)
    assert all(off(weights, whole[1][name]) <= 1e-10 for name, weights in found[1].items())


@pytest.mark.parametrize("precision", ["bf16", None])
def test_halves_in_single_or_lower_precision_are_those_of_a_whole_backward(precision: Any) -> None:
    rig = images()
    rig.options = Options(dtype="float32", lr=0.02, precision=precision)
    whole, found = (rig.trained(each, three(), 5)[1] for each in (pipeline(), halved(pipeline())))
    assert all(off(weights, whole[name]) <= 1e-5 for name, weights in found.items())


class Shared(nn.Module):
    """Weights that are used once, twice as they are, twice by way of another operation, and not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.place = nn.Linear(5, 5), nn.Embedding(4, 5)
        self.scale, self.unused = nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(2))
        self.matrix = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.linear(x)) * self.scale
        x = self.linear(x) * self.scale + self.place(torch.arange(len(x)))
        matrix = self.matrix / self.matrix.norm()
        return torch.relu(x @ matrix) @ matrix


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "shared": (Shared, (4, 5)),
    "linear": (lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.LayerNorm(7), nn.Linear(7, 3)), (4, 5)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3)), (4, 3, 8, 8)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 6, 8)),
    "nothing that learns": (nn.Tanh, (4, 5)),
}


@pytest.mark.parametrize(("make", "shape"), MODULES.values(), ids=MODULES)
def test_two_halves_are_the_gradients_of_one_backward(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    module, x = make().double(), torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    weights, y = list(module.parameters()), module(x)
    above = torch.randn_like(y)
    expected = torch.autograd.grad(y, [x, *weights], above, retain_graph=True, allow_unused=True)
    passed, rest = input_half([y], [above], [x], weights)
    for found, known, leaf in zip([*passed, *rest.gradients()], expected, [x, *weights], strict=True):
        assert torch.allclose(found, torch.zeros_like(leaf) if known is None else known, rtol=1e-12, atol=1e-12)


def test_the_first_half_computes_no_gradients_of_weights_and_the_second_none_of_inputs() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    x, module = torch.randn(8, 32, requires_grad=True), nn.Sequential(*(nn.Linear(32, 32) for _ in range(4)))
    y, one = module(x), 4 * 2 * 8 * 32 * 32
    with FlopCounterMode(display=False) as first:
        _, rest = input_half([y], [torch.ones_like(y)], [x], list(module.parameters()))
    with FlopCounterMode(display=False) as second:
        rest.gradients()
    assert (first.get_total_flops(), second.get_total_flops()) == (one, one)
