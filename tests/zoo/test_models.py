from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from palmette.errors import InputError
from palmette.zoo.capture import LayerChain, state
from palmette.zoo.models import in_dtype, load_network
from tests.runtime import length_recipes

OWN = """
import torch
from torch import nn

def plain():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))

class Knows(nn.Module):
    input_shape = (3, 8, 8)

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3)
        self.head = nn.Linear(2, 5)

    def forward(self, x):
        return self.head(self.conv(x).mean((2, 3)))

class Tokens(nn.Module):
    input_shape = (6,)
    input_dtype = torch.long

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(1))

def wrong_dtype():
    module = plain()
    module.input_dtype = "long"
    return module

def wrong_shape():
    module = plain()
    module.input_shape = "4"
    return module

def text():
    return "no module"

def raising():
    raise RuntimeError("out of order\\nsecond line")

number = 3
"""


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with the user's own module, which is the current one."""
    (tmp_path / "mynets.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    yield
    sys.modules.pop("mynets", None)


def test_network_of_the_zoo_comes_with_its_published_shape():
    network = load_network("lenet5")
    assert (network.name, network.input_shape, network.classes) == ("lenet5", (3, 32, 32), 10)
    assert network.dtype is torch.float32
    assert [layer.name for layer in network.layers] == ["conv1", "pool1", "conv2", "pool2", "fc1", "fc2", "fc3"]
    assert network.layers[0].output_shape == (6, 28, 28)
    assert network.layers[0].state_names == ("conv1.0.weight", "conv1.0.bias")


def test_variant_sets_classes_size_and_channels():
    network = load_network("squeezenet?classes=200&size=64&channels=1")
    assert (network.input_shape, network.classes) == ((1, 64, 64), 200)
    assert network.name == "squeezenet?classes=200&size=64&channels=1"


def test_input_shape_sets_size_and_channels_of_a_zoo_network():
    assert load_network("lenet5", input_shape=(1, 28, 28)).input_shape == (1, 28, 28)


def test_layers_run_on_what_they_say_they_take():
    network = load_network("cifar10?size=24", seed=0)
    x = torch.rand(3, *network.input_shape)
    for layer in network.layers:
        x = layer.module(x)
        assert x.shape == (3, *layer.output_shape)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lenet", "model: lenet: no such network of the zoo; did you mean lenet5?"),
        ("lenet5?clases=3", "model: lenet5?clases=3: clases: no such option; did you mean classes?"),
        ("lenet5?size=big", "model: lenet5?size=big: size: expected a whole number of 1 or more, as in size=64"),
        ("lenet5?size=-4", "model: lenet5?size=-4: size: expected a whole number of 1 or more, as in size=64"),
        ("lenet5?size=32&size=28", "model: lenet5?size=32&size=28: size: expected only once"),
        ("lenet5?size=8", "size: 8: lenet5 takes images of 16 pixels a side or more"),
    ],
)
def test_wrong_variant_says_what_was_expected(name, message):
    with pytest.raises(InputError) as error:
        load_network(name)
    assert str(error.value) == message


def test_every_wrong_option_is_named():
    with pytest.raises(InputError) as error:
        load_network("lenet5?size=x&clases=3")
    assert len(error.value.faults) == 2


@pytest.mark.parametrize("shape", [(3, 32), (3, 32, 28), (0, 32, 32)])
def test_zoo_refuses_what_is_not_a_square_image(shape):
    with pytest.raises(InputError, match="takes square images"):
        load_network("lenet5", input_shape=shape)


def test_input_shape_that_contradicts_the_variant_is_refused():
    with pytest.raises(InputError, match="says size=64"):
        load_network("alexnet?size=64", input_shape=(3, 32, 32))


def test_same_seed_gives_the_same_weights_and_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    first, again, other = (state(load_network("lenet5", seed=seed).layers) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["conv1.0.weight"], other["conv1.0.weight"])


def test_without_a_seed_weights_follow_the_global_random_state():
    torch.manual_seed(5)
    first, second = (state(load_network("lenet5").layers)["conv1.0.weight"] for _ in range(2))
    torch.manual_seed(5)
    again = state(load_network("lenet5").layers)["conv1.0.weight"]
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


@pytest.mark.usefixtures("own")
def test_own_callable_is_found_in_the_current_folder():
    network = load_network("mynets:plain", input_shape=(4,))
    assert [layer.name for layer in network.layers] == ["0", "1", "2"]
    assert (network.input_shape, network.output_shape) == ((4,), (2,))


@pytest.mark.usefixtures("own")
def test_own_class_may_know_its_input_shape():
    network = load_network("mynets:Knows")
    assert network.input_shape == (3, 8, 8)
    assert [layer.name for layer in network.layers] == ["conv", "mean", "head"]


@pytest.mark.usefixtures("own")
def test_same_seed_gives_an_own_network_the_same_weights():
    first, again = (state(load_network("mynets:Knows", seed=4).layers) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)


@pytest.mark.usefixtures("own")
def test_own_class_may_take_whole_numbers():
    network = load_network("mynets:Tokens")
    assert network.dtype is torch.long
    assert network.classes == 10
    assert [layer.name for layer in network.layers] == ["embed", "mean", "head"]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mynets:plain", "mynets:plain: has no input_shape; give one, e.g. input_shape 3,32,32"),
        ("mynets:plane", "mynets:plane: no such callable in mynets; did you mean plain?"),
        ("mynet:plain", "mynet:plain: no module mynet"),
        ("mynets:text", "mynets:text: returned a str; expected a torch.nn.Module"),
        ("mynets:raising", "mynets:raising: calling it failed: RuntimeError: out of order"),
        ("mynets:number", "mynets:number: is a int; expected a callable"),
        ("mynets:wrong_shape", "input-shape: 4: expected whole numbers of 1 or more"),
        ("torch.nn:Linear", "torch.nn:Linear: calling it failed: TypeError"),
    ],
)
def test_own_callable_that_cannot_be_used_is_refused_in_one_line(name, message):
    with pytest.raises(InputError) as error:
        load_network(name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("own")
def test_own_callable_with_a_dtype_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"expected a dtype such as torch\.long"):
        load_network("mynets:wrong_dtype", input_shape=(4,))


@pytest.mark.usefixtures("own")
def test_input_shape_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="its layer 0 fails: RuntimeError"):
        load_network("mynets:plain", input_shape=(5,))


class CastsToItsWeights(nn.Module):
    """Casts its input to the dtype of a weight, as models of transformers do, in a forward that only export traces."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        if x.shape[1] != 4:
            raise ValueError("expected 4 numbers")
        return self.two(self.one(x.to(self.one.weight.dtype)).relu())


def test_a_network_that_casts_to_the_dtype_of_its_weights_runs_in_another():
    module = CastsToItsWeights()
    network = in_dtype(load_network(module, (4,)), torch.float64)
    x = torch.rand(3, 4, dtype=torch.float64)
    assert torch.equal(LayerChain(layer.module for layer in network.layers)(x), module.double()(x))
    assert len(network.layers) == 2


@pytest.mark.slow
def test_threads_that_load_networks_at_once_get_the_same_ones():
    def loaded(_: int):
        return load_network(f"{length_recipes.__name__}:recurrent", seed=3)

    with ThreadPoolExecutor(4) as threads:
        networks = list(threads.map(loaded, range(12)))
    assert {network.dtype for network in networks} == {torch.long}
    first, *others = [state(network.layers) for network in networks]
    assert all(torch.equal(first[name], other[name]) for other in others for name in first)
