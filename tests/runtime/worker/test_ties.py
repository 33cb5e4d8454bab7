"""Weights that several layers use are one on a node, however its layers were copied."""

from __future__ import annotations

import copy
import random
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from palmette.cost.check import forbidden
from palmette.runtime.options import Options
from palmette.runtime.worker.compute import Compute
from palmette.spec.plan import Phase
from palmette.zoo.capture import cut, tied_weights
from palmette.zoo.recipes.objective import classification
from tests.cost.small import instance, phase, source
from tests.runtime.module_rig import CLUSTER, ModuleRig
from tests.zoo import odd_networks as odd


def test_layers_that_were_copied_apart_learn_as_one() -> None:
    torch.manual_seed(0)
    module = odd.TiedInTheMiddle().double()
    x, labels = torch.rand(8, 6).double(), torch.randint(0, 6, (8,))
    layers = cut(module, x)
    depth = len(layers)
    alone = phase(source("a", 8, "I"), instance("I", 1, depth, "a"))
    apart = {number: copy.deepcopy(layer.module) for number, layer in enumerate(layers, 1)}
    options = Options(dtype="float64", lr=0.1, optimizer="momentum")
    classes = classification(6)
    compute = Compute(alone, "a", apart, options, own=[0], ties=tied_weights(layers), objective=classes)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        compute.forward(0, [(x,)], [classes.labels.rows(labels, len(labels))], step)
        compute.backward(0, None)
        compute.optimizers.update(0)
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), labels).backward()
        optimizer.step()
    expected = module.state_dict()
    for layer in compute.layers.values():
        for name, value in layer.state_dict().items():
            torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-12)
    assert {key.rpartition("/")[0] for key in compute.optimizers.state()} == set(expected)


def tied_tree(sync: str, *parts: tuple[int, int, str]) -> Phase:
    ids = [f"I{k}" for k in range(len(parts))]
    made = [
        instance(ids[k], first, last, node, ids[k + 1] if k + 1 < len(parts) else None)
        for k, (first, last, node) in enumerate(parts)
    ]
    return phase(source("a", 8, "I0"), *made, sync=sync)


@pytest.mark.parametrize(
    ("sync", "parts", "allowed"),
    [
        ("step", ((1, 2, "a"), (3, 5, "b")), True),
        ("epoch", ((1, 5, "a"),), True),
        ("epoch", ((1, 4, "a"), (5, 5, "b")), True),
        ("epoch", ((1, 2, "a"), (3, 5, "b")), False),
        ("async", ((1, 5, "a"),), False),
    ],
)
def test_where_gradients_do_not_meet_layers_stay_together_that_share_a_weight(
    sync: str, parts: tuple[tuple[int, int, str], ...], allowed: bool
) -> None:
    torch.manual_seed(0)
    rig = ModuleRig(odd.TiedInTheMiddle(), torch.rand(24, 6))
    faults = [fault for fault in forbidden(tied_tree(sync, *parts), rig.evaluator(CLUSTER)) if fault.field == "sync"]
    assert bool(faults) is not allowed
    assert all("layers 2, 4 share a weight; expected step" in str(fault) for fault in faults)


class UsedOften(nn.Module):
    """One weight in four layers, with others between them."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(24, 24)
        self.own = nn.ModuleList(nn.Linear(24, 24) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for each in self.own:
            x = torch.tanh(each(torch.tanh(self.shared(x))))
        return x


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("more", [{}, {"precision": "bf16"}, {"precision": "fp16", "loss_scale": 1000.0}])
def test_however_a_pass_is_divided_the_gradients_of_a_tie_are_the_same_bits(
    more: dict[str, Any], recompute: bool
) -> None:
    torch.manual_seed(0)
    x, labels, chance = torch.randn(8, 24), torch.randint(0, 24, (8,)), random.Random(1)
    layers = cut(UsedOften(), x)
    depth, ties, classes = len(layers), tied_weights(layers), classification(24)
    assert any(len(each.layers) == 4 for each in ties)
    tree = phase(source("a", 8, "I"), instance("I", 1, depth, "a", recompute=recompute))

    def gradients(*starts: int) -> list[torch.Tensor]:
        """Of a pass that is divided where these layers begin."""
        own = {number: copy.deepcopy(layer.module) for number, layer in enumerate(layers, 1)}
        compute = Compute(tree, "a", own, Options(**more), own=[0], ties=ties, objective=classes)
        begins = [1, *starts, depth + 1]
        blocks = [(begin, end - 1) for begin, end in pairwise(begins)] if starts or recompute else []
        compute.forward(0, [(x,)], [classes.labels.rows(labels, len(labels))], 0, blocks)
        for _ in blocks or [(1, depth)]:
            if recompute:
                compute.recompute(0)
            compute.backward(0, None)
        return [part for number in compute.held.weights for part in compute.gradients.take(0, number)]

    whole = gradients()
    assert all(each.any() for each in whole)
    for _ in range(12):
        starts = sorted(chance.sample(range(2, depth + 1), chance.randint(1, 4)))
        assert all(map(torch.equal, gradients(*starts), whole)), starts
