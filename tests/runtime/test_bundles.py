"""Networks with several tensors between their layers, or going in or out, train as in one process."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from palmette.cost.operations import iteration
from palmette.cost.steps import Kind
from palmette.runtime.options import Dtype
from palmette.runtime.worker.bundles import BundleFormat
from palmette.spec.plan import Phase
from palmette.zoo.capture import TensorSpec
from tests.runtime.module_rig import CLUSTER, SAMPLES, ModuleRig, two_branches, two_cuts
from tests.runtime.rig import off
from tests.runtime.test_wire import uncounted_label_bytes
from tests.thorough import mostly_slow
from tests.zoo import odd_networks as odd

ITERATIONS = 4


def images() -> Tensor:
    return torch.rand(SAMPLES, 3, 8, 8)


def tokens() -> dict[str, Tensor]:
    lengths = torch.randint(2, 7, (SAMPLES, 1))
    return {"ids": torch.randint(0, 11, (SAMPLES, 6)), "mask": (torch.arange(6) < lengths).long()}


def pair() -> dict[str, Tensor]:
    return {"left": torch.rand(SAMPLES, 4), "right": torch.rand(SAMPLES, 3)}


CASES = {
    "U-Net": (odd.UNet, images),
    "two inputs": (odd.TwoTowers, pair),
    "two inputs in order": (odd.TwoTowers, lambda: tuple(pair().values())),
    "mask": (odd.Masked, tokens),
    "dict of outputs": (odd.DictOutputs, lambda: torch.rand(SAMPLES, 4)),
    "tuple of outputs": (odd.TupleOutputs, lambda: torch.rand(SAMPLES, 4)),
    "LSTM": (odd.Recurrent, lambda: torch.rand(SAMPLES, 5, 4)),
    "tied embedding and head": (
        lambda: odd.Transformer(tied=True, dropout=0.0),
        lambda: torch.randint(0, 11, (SAMPLES, 6)),
    ),
    "tied in the middle": (odd.TiedInTheMiddle, lambda: torch.rand(SAMPLES, 6)),
    "a bias for all samples": (odd.SharedBias, lambda: torch.rand(SAMPLES, 5, 4)),
}


def rig_of(case: str, dtype: Dtype = "float64") -> ModuleRig:
    torch.manual_seed(0)
    make, example = CASES[case]
    return ModuleRig(make(), example(), dtype=dtype)


def assert_equals_one_process(rig: ModuleRig, *trees: Phase) -> None:
    expected_losses, expected = rig.one_process(ITERATIONS)
    for tree in trees:
        losses, held = rig.trained(tree, CLUSTER, ITERATIONS)
        assert losses == pytest.approx(expected_losses, rel=1e-9)
        for weights in held.values():
            # Copied layers list the constants of their graph beside the module's own state.
            assert off({name: weights[name] for name in weights.keys() & expected.keys()}, expected) <= 1e-9
        assert set().union(*held.values()) >= set(expected)


def cut_everywhere(depth: int, codec: str = "none") -> list[Phase]:
    """Trees with two cuts each that together are cut after every layer."""
    firsts = sorted({*range(1, depth - 1, 2), depth - 2} - {0})
    return [two_cuts(depth, first, first + 1, codec) for first in firsts]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_cut_twice_it_trains_as_in_one_process(case: str) -> None:
    rig = rig_of(case)
    assert len(rig.layers) > 1
    assert_equals_one_process(rig, *cut_everywhere(len(rig.layers)))


@pytest.mark.slow
@pytest.mark.parametrize("case", mostly_slow(CASES, 5))
def test_branches_join_their_bundles(case: str) -> None:
    rig = rig_of(case)
    assert_equals_one_process(rig, *(two_branches(len(rig.layers), first) for first in range(1, len(rig.layers))))


@pytest.mark.parametrize("codec", ["none", "int8"])
@pytest.mark.parametrize("case", mostly_slow(CASES, 5))
def test_the_estimate_counts_the_bytes_that_are_sent(case: str, codec: str) -> None:
    rig = rig_of(case, "float32")
    for tree in cut_everywhere(len(rig.layers), codec):
        assert_estimate_counts(rig, tree)


def assert_estimate_counts(
    rig: ModuleRig, tree: Phase, kinds: tuple[Kind, ...] = (Kind.OUTPUT, Kind.GRADIENT, Kind.PUSH, Kind.PULL)
) -> None:
    """Of every message of some kinds."""
    rig.trained(tree, CLUSTER, iterations=1)
    evaluator = rig.evaluator(CLUSTER)
    made = iteration(tree, evaluator.sizes(), evaluator.routes)
    transfers = [(step, size) for step, size in zip(made.steps, made.size_bytes, strict=True) if step.to is not None]
    assert {channel.number for channel in rig.wire.sizes} == set(range(len(transfers)))
    for channel, sent in rig.wire.sizes.items():
        step, size = transfers[channel.number]
        if step.kind in kinds:
            assert size + uncounted_label_bytes(tree, step) == sent, step


def test_integers_travel_as_they_are_and_have_no_gradient() -> None:
    specs = (TensorSpec((3,), torch.float32), TensorSpec((2, 2), torch.bool, gradient=False))
    known = BundleFormat(specs, torch.float32)
    bundle = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.tensor([[[True, False]] * 2] * 2)
    for codec in ("none", "int8"):
        message = known.message(bundle, known.coders(codec))
        assert message.numel() == known.message_bytes(2, known.coders(codec))
        floats, mask = known.unpacked(message, 2, known.coders(codec))
        assert torch.equal(mask, bundle[1])
        torch.testing.assert_close(floats, bundle[0], rtol=0.01, atol=0.05)
    assert known.gradient.message_bytes(2, known.gradient.coders("none")) == 2 * 3 * 4


def test_no_gradient_comes_back_where_nothing_before_learns() -> None:
    torch.manual_seed(0)
    module = odd.UNet()
    module.e1.requires_grad_(False)
    rig = ModuleRig(module, images())
    tree = two_cuts(len(rig.layers), 2, 5)
    assert_equals_one_process(rig, tree)
    programs = rig.programs(tree, CLUSTER)
    assert not any(operation.what in (Kind.BACKWARD, Kind.GRADIENT) for operation in programs["a"].operations)


def test_frozen_weights_are_not_exchanged() -> None:
    torch.manual_seed(0)
    module = odd.UNet()
    for name, weight in module.named_parameters():
        weight.requires_grad_(name.endswith("bias"))
    rig = ModuleRig(module, images(), dtype="float32")
    tree = two_branches(len(rig.layers), len(rig.layers) - 1)
    assert_estimate_counts(rig, tree)
    evaluator = rig.evaluator(CLUSTER)
    made = iteration(tree, evaluator.sizes(), evaluator.routes)
    pushed = [size for step, size in zip(made.steps, made.size_bytes, strict=True) if step.kind is Kind.PUSH]
    own = [(name, weight) for name, weight in module.named_parameters() if not name.startswith("head")]
    biases = sum(weight.nbytes for name, weight in own if name.endswith("bias"))
    assert pushed == [biases]
    weights = sum(weight.nbytes for _, weight in own)
    kept = evaluator.sizes().activation_bytes((1, len(rig.layers) - 1), 3)
    assert evaluator.peak_bytes(tree)["b"] == weights + biases + kept
