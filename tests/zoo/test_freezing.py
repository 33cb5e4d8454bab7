"""What is frozen: by the module itself, wherever it goes, and by ``--freeze``, which says when it names nothing."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch import Tensor, nn

from palmette.compress.networks import prune_network
from palmette.errors import InputError
from palmette.zoo.capture import cut, parameters
from palmette.zoo.freezing import matching_weights, refuse_all_frozen
from palmette.zoo.models import Network, load_network

LAYERS = load_network("lenet5", seed=0).layers


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("conv1", ("conv1.0.weight", "conv1.0.bias")),
        ("conv1.*", ("conv1.0.weight", "conv1.0.bias")),
        ("fc3.bias", ("fc3.bias",)),
        ("conv?.*weight", ("conv1.0.weight", "conv2.0.weight")),
    ],
)
def test_a_pattern_names_a_layer_or_weights(pattern: str, expected: tuple[str, ...]) -> None:
    assert matching_weights(LAYERS, [pattern]) == expected


def test_everything_and_nothing() -> None:
    assert len(matching_weights(LAYERS, ["*"])) == 10
    assert matching_weights(LAYERS, []) == ()


def test_patterns_add_up_without_repeating() -> None:
    assert matching_weights(LAYERS, ["fc3", "fc3.bias"]) == ("fc3.weight", "fc3.bias")


def test_what_matches_nothing_is_refused_each_with_its_nearest() -> None:
    with pytest.raises(InputError) as refused:
        matching_weights(LAYERS, ["conv", "fc1", "pool1"])
    first, second = (str(fault) for fault in refused.value.faults)
    assert first == "freeze: conv: no such layer with weights; did you mean conv2?"
    assert second.startswith("freeze: pool1: no such layer with weights; expected one of conv1, conv2, fc1, fc2, ")


WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "as cut": lambda module: module,
    "as a copy": copy.deepcopy,
    "to a process": lambda module: pickle.loads(bytes(ForkingPickler.dumps(module))),
    "to an actor": lambda module: pickle.loads(pickle.dumps(module)),
    "in other numbers": lambda module: module.to(torch.float64),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", ["vit", "adapters", "headed"])
def test_layers_know_what_is_frozen_wherever_they_go(name: str, way: Callable[[nn.Module], nn.Module]) -> None:
    network = load_network(f"tests.runtime.networks:{name}", seed=0)
    found = [way(layer.module) for layer in network.layers]
    trains = {name: weight.requires_grad for module in found for name, weight in module.named_parameters()}
    assert trains == trained(network.module)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "adapters", "headed"])
def test_smaller_networks_know_what_is_frozen(name: str) -> None:
    network = load_network(f"tests.runtime.networks:{name}", seed=0)
    small, pruned = prune_network(network, 0.3)
    smaller, _ = prune_network(small, 0.5, origin=pruned.origin)
    for each in (small, smaller):
        assert {name: w.requires_grad for name, w in parameters(each.layers).items()} == trained(network.module)


def trained(module: nn.Module | None) -> dict[str, bool]:
    assert module is not None
    return {name: weight.requires_grad for name, weight in module.named_parameters()}


class Exported(nn.Module):
    """Cannot be traced by torch.fx, which does not follow a loop over a size."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.scale, self.unused = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        for place in range(x.shape[1] - 1):
            x = self.layers[place](x).relu()
        return x * self.scale


def test_layers_by_export_know_what_is_frozen() -> None:
    module = Exported()
    module.requires_grad_(requires_grad=False)
    module.layers[1].requires_grad_(requires_grad=True)
    found = parameters(cut(module, torch.rand(2, 4)))
    assert {name: weight.requires_grad for name, weight in found.items()} == trained(module)


def test_a_network_with_nothing_to_train_is_refused() -> None:
    refuse_all_frozen("lenet5", LAYERS, matching_weights(LAYERS, ["conv*", "fc1"]))
    with pytest.raises(InputError, match=r"lenet5: all of its 10 weights are frozen; expected one"):
        refuse_all_frozen("lenet5", LAYERS, matching_weights(LAYERS, ["*"]))
    with pytest.raises(InputError, match=r"flat: it has no weights; expected one"):
        refuse_all_frozen("flat", Network("flat", cut(nn.Flatten(), torch.rand(2, 4)), (4,), torch.float32).layers)
