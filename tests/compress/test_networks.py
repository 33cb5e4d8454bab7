"""A network as layers, made smaller: the same layers under the same names, which do what the pruned module does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from palmette.compress.networks import network_origin, prune_network
from palmette.zoo.capture import state
from palmette.zoo.example_inputs import example_input
from palmette.zoo.models import Network, load_network

NAMES = [
    "lenet5",
    "resnet18?size=32&classes=10",
    "googlenet?size=32&classes=10",
    "tests.runtime.networks:residual",
    "tests.runtime.networks:tiny",
]


def whole(network: Network) -> nn.Module:
    return nn.Sequential(*[layer.module for layer in network.layers]).eval()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_layers_keep_their_number_and_names(name: str) -> None:
    network = load_network(name, seed=0)
    before = {key: value.clone() for key, value in state(network.layers).items()}

    smaller, pruned = prune_network(network, 0.4)

    assert [layer.name for layer in smaller.layers] == [layer.name for layer in network.layers]
    assert list(state(smaller.layers)) == list(before)
    assert all(torch.equal(value, before[key]) for key, value in state(network.layers).items())
    assert pruned.removed == pytest.approx(0.4, abs=0.05)
    example = example_input(smaller.input_shape, smaller.dtype)
    assert smaller.module is not None
    assert torch.equal(whole(smaller)(example), smaller.module.eval()(example))
    for key, places in pruned.places.items():
        assert torch.equal(state(smaller.layers)[key], places.taken(before[key]))


def test_weights_of_this_moment_are_pruned_in_their_own_type() -> None:
    network = load_network("tests.runtime.networks:residual", seed=0)
    for layer in network.layers:
        layer.module.double()
        for weight in layer.module.parameters():
            weight.data += 1
    smaller, pruned = prune_network(network, 0.3)
    assert {value.dtype for value in state(smaller.layers).values()} == {torch.float64}
    known = state(network.layers)
    assert all(torch.equal(state(smaller.layers)[k], p.taken(known[k])) for k, p in pruned.places.items())


def test_prunings_follow_one_another_by_the_original() -> None:
    network = load_network("lenet5", seed=0)
    origin = network_origin(network)
    first, _ = prune_network(network, 0.25, origin=origin)
    second, pruned = prune_network(first, 0.5, origin=origin)
    at_once, _ = prune_network(network, 0.5)
    assert [w.shape for w in state(second.layers).values()] == [w.shape for w in state(at_once.layers).values()]
    assert pruned.removed == pytest.approx(0.5, abs=0.02)
