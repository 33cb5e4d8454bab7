"""Losses whose divisor varies with the samples, on trees with several roots, equal one process with the whole batch."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.runtime.options import Options
from palmette.spec.plan import Phase
from palmette.zoo.data.item_format import item_format
from palmette.zoo.recipes.loss import splittable
from palmette.zoo.recipes.objective import TrainingObjective
from tests.cost.small import instance, phase, source
from tests.runtime.rig import Rig, Toy, off
from tests.runtime.test_equality import CROWDED, HIERARCHY, assert_equal, images, random_rig, three

IGNORED = -100
TWO_ROOTS = phase(
    source("a", 7, "1"),
    source("c", 5, "x"),
    instance("1", 1, 2, "a", "2"),
    instance("2", 3, 5, "b"),
    instance("x", 1, 5, "c"),
)
THREE_ROOTS = phase(
    source("a", 5, "p"),
    source("b", 1, "q"),
    source("c", 4, "r"),
    source("a", 2, "s"),
    instance("p", 1, 3, "a", "top"),
    instance("s", 1, 3, "c", "top"),
    instance("top", 4, 5, "b"),
    instance("q", 1, 5, "b"),
    instance("r", 1, 5, "c"),
)
TREES = {"two roots": TWO_ROOTS, "three roots": THREE_ROOTS, "roots on one node": CROWDED, "one root": HIERARCHY}
CLASSES = torch.tensor([0.2, 1.0, 3.0], dtype=torch.float64)


def masked(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """A user's own (sum, count), by weights of the classes, without those that are padding."""
    weights = torch.where(targets == IGNORED, 0.0, CLASSES[targets.clamp(min=0)])
    each = nn.functional.cross_entropy(outputs, targets.clamp(min=0), reduction="none")
    return (each * weights).sum(), weights.sum()


LOSSES: dict[str, Any] = {
    "padding": nn.CrossEntropyLoss(ignore_index=IGNORED),
    "classes": nn.CrossEntropyLoss(weight=CLASSES, ignore_index=IGNORED),
    "sum and count": masked,
}


class PaddedToy(Toy):
    """Samples of which two in five do not count."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.targets[torch.arange(len(self.targets)) % 5 < 2] = IGNORED


@dataclass
class PaddedRig(Rig):
    """A rig with a loss of its own."""

    loss: Any = None

    @cached_property
    def data(self) -> Toy:
        return PaddedToy(self.shape, self.classes, dtype=self.dtype)

    @property
    def objective(self) -> TrainingObjective:
        targets = torch.tensor([0, 1, IGNORED])
        outputs = torch.randn(3, self.classes, dtype=torch.float64)
        return TrainingObjective(splittable(self.loss, outputs, targets, "loss"), item_format(targets))

    def mean_loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        if bool((labels == IGNORED).all()):  # 0 / 0 for PyTorch: nothing to learn from
            return outputs.sum() * 0
        found = self.loss(outputs, labels)
        mean: Tensor = found[0] / found[1] if isinstance(found, tuple) else found
        return mean


def padded(name: str, *, batch_norm: bool = False, **options: Any) -> PaddedRig:
    made = images(batch_norm=batch_norm)
    chosen = {"dtype": "float64", "lr": 0.1, **options}
    return PaddedRig(made.layers, made.shape, options=Options(**chosen), loss=LOSSES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_a_divisor_that_varies_equals_one_process(name: str, tree: Phase) -> None:
    assert_equal(padded(name), tree, three(), iterations=6)


@pytest.mark.parametrize("tree", [TWO_ROOTS, THREE_ROOTS, CROWDED], ids=["two", "three", "crowded"])
def test_it_does_so_with_all_else_that_is_exchanged(tree: Phase) -> None:
    """Statistics of batch norm, the norm of all gradients, and gradients of several iterations with divisors each."""
    rig = padded("sum and count", batch_norm=True, optimizer="adamw", lr=0.01, clip_norm=0.05, accumulate=3)
    assert_equal(rig, tree.model_copy(update={"batch_norm": "whole"}), three(), iterations=7)


@pytest.mark.parametrize("tree", [TWO_ROOTS, THREE_ROOTS, CROWDED], ids=["two", "three", "crowded"])
def test_it_does_so_where_activations_are_recomputed(tree: Phase) -> None:
    """A root counts its samples after its first forward; gradients of blocks and of iterations both add up."""
    again = [each.model_copy(update={"recompute": True}) for each in tree.instances]
    rig = padded("sum and count", batch_norm=True, clip_norm=0.05, accumulate=3)
    whole = tree.model_copy(update={"instances": tuple(again), "batch_norm": "whole"})
    assert_equal(rig, whole, three(), iterations=7)


def test_a_batch_in_which_nothing_counts_changes_nothing() -> None:
    rig = padded("padding")
    rig.data.targets[:] = IGNORED
    losses, held = rig.trained(TWO_ROOTS, three(), iterations=2)
    assert losses == [0.0, 0.0]
    before = {name: value for layer in rig.fresh() for name, value in layer.state_dict().items()}
    assert all(off(weights, before) == 0 for weights in held.values())


def test_counts_are_exchanged_between_the_nodes_with_roots_alone() -> None:
    found = {node: str(made) for node, made in padded("padding").programs(TWO_ROOTS, three()).items()}
    assert "count from c" in found["b"]
    assert "total divisor to c" in found["b"]
    assert "divisor" not in found["a"]
    one = "".join(str(made) for made in padded("padding").programs(HIERARCHY, three()).values())
    assert "divisor" not in one


@pytest.mark.parametrize("seed", range(600, 612))
def test_any_tree_equals_one_process(seed: int) -> None:
    """Of random networks with random clipping and accumulation; most of these trees have several roots."""
    plain, tree, known = random_rig(seed)
    draw = random.Random(seed)
    options = replace(plain.options, clip_norm=draw.choice([None, 0.05]), accumulate=draw.randint(1, 3))
    rig = PaddedRig(plain.layers, plain.shape, options=options, loss=LOSSES[draw.choice(list(LOSSES))])
    assert_equal(rig, tree, known, iterations=5)
