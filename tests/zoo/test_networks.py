from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from palmette.errors import InputError
from palmette.zoo.capture import cut
from palmette.zoo.networks import registry
from tests.thorough import mostly_thorough
from tests.zoo.equality import assert_same_with_cuts

# What the papers, or their authors' released weights, count.
PUBLISHED = {
    "lenet5": 62_006,
    "alexnet": 61_100_840,
    "vgg11": 132_863_336,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "googlenet": 6_998_552,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "mobilenet": 4_231_976,
    "squeezenet": 1_235_496,
    "nin": 966_986,
}
LAYERS = {
    "lenet5": 7,
    "alexnet": 11,
    "vgg11": 16,
    "vgg11small": 16,
    "vgg16": 21,
    "vgg19": 24,
    "googlenet": 18,
    "resnet18": 12,
    "resnet34": 20,
    "mobilenet": 29,
    "squeezenet": 14,
    "nin": 12,
    "cifar10": 7,
}
LARGER = ("vgg11", "vgg16", "vgg19", "resnet34")


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def weights(name: str, **options: int) -> int:
    with torch.device("meta"):
        return sum(weight.numel() for weight in registry.build(name, **options).parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_has_as_many_weights_as_published(name):
    assert weights(name) == PUBLISHED[name]


def test_the_tutorials_network_has_as_many_weights_as_there_for_its_crops_of_24_pixels():
    assert weights("cifar10", size=24) == 1_068_298


@pytest.mark.parametrize("name", registry.names())
def test_has_its_number_of_layers_each_a_named_child(name):
    with torch.device("meta"):
        assert len(registry.build(name)) == LAYERS[name]


@pytest.mark.parametrize("name", registry.names())
@pytest.mark.parametrize("size", mostly_thorough([0, 47, 224, 32, 48, 64, 95, 96], 3))
def test_takes_images_from_the_smallest_size_up(name, size):
    size = size or registry.network_entry(name).min_size
    with torch.device("meta"):
        network = registry.build(name, size=size, classes=7, channels=2)
        assert network(torch.empty(3, 2, size, size)).shape == (3, 7)


@pytest.mark.parametrize("name", registry.names())
def test_refuses_images_below_the_smallest_size_and_says_which_it_is(name):
    smallest = registry.network_entry(name).min_size
    with pytest.raises(InputError, match=f"size: {smallest - 1}: {name} takes images of {smallest} pixels"):
        registry.build(name, size=smallest - 1)


def test_unknown_name_gets_the_nearest_right_one():
    with pytest.raises(InputError, match="did you mean resnet18"):
        registry.build("resnet-18")


def test_first_layer_of_lenet5_is_the_one_of_the_profile_format():
    network = registry.build("lenet5")
    first = network.get_submodule("conv1")
    assert sum(weight.numel() * 4 for weight in first.parameters()) == 1824
    assert first(torch.rand(1, 3, 32, 32)).shape == (1, 6, 28, 28)


def test_listing_names_does_not_import_torch():
    code = "import sys, palmette.zoo.networks.registry as n; assert n.names(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "name",
    # The larger of a family differ from the smallest in depth or width alone.
    [pytest.param(name, marks=[pytest.mark.slow] if name in LARGER else []) for name in registry.names()],
)
def test_cut_after_every_layer_it_learns_the_same(name):
    torch.manual_seed(0)
    network = registry.build(name, size=32, classes=4).double()
    x = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    layers = cut(network, x)
    assert [layer.name for layer in layers] == [child for child, _ in network.named_children()]
    assert_same_with_cuts(network, layers, x, range(1, len(layers)))


@pytest.mark.parametrize("name", registry.names())
def test_signal_neither_dies_nor_explodes_in_a_fresh_network(name):
    torch.manual_seed(0)
    network = registry.build(name, size=32, classes=10)
    with torch.no_grad():
        spread = network(torch.randn(4, 3, 32, 32)).std().item()
    assert 1e-3 < spread < 1e2
