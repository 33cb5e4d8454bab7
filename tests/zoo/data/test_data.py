"""Data sets fit the network that asks for them, and a sample is the same in every batch."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from palmette.errors import InputError
from palmette.zoo.data import concatenate, load_data
from palmette.zoo.data.cifar10 import DEVIATION, MEAN
from palmette.zoo.data.digits import read_digits
from palmette.zoo.data.registry import DATA_SETS, public_name
from tests.zoo.data.archives import content, write_archive
from tests.zoo.data.own_modules import write_module

OWN = """
import torch

class Squares(list):
    classes = ["small", "large"]

def make():
    return [(torch.full((2, 3), float(k)), k % 5) for k in range(40)]

def parted(train):
    return Squares((torch.full((2, 3), float(train)), torch.tensor(1)) for k in range(8 if train else 3))

def empty(): return []
def number(): return 7
def images(): return [("a picture", 1)] * 20
def alone(): return [torch.zeros(2, 3)] * 20
def halves(): return [(torch.zeros(2, 3), 0.5)] * 20
def triples(): return [(torch.zeros(2, 3), 1, 2)] * 20
def words(): return [(torch.zeros(2, 3), "cat")] * 20
def boxes(): return [(torch.zeros(2, 3), {"box": torch.ones(4) * k, "kind": k}) for k in range(20)]
def ragged(): return [(torch.zeros(2, 3), torch.zeros(k + 1)) for k in range(20)]
def few(): return make()[:9]
def raises(): raise OSError("the disk is gone")

class Broken:
    def __len__(self): return 20
    def __getitem__(self, k): raise OSError("the disk is gone")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with data sets of the user's own."""
    return write_module(tmp_path, monkeypatch, "own_data", OWN)


def fault_of(name: str, shape: tuple[int, ...] = (3, 32, 32)) -> str:
    with pytest.raises(InputError) as error:
        load_data(name, shape)
    assert "\n" not in str(error.value)
    return re.sub(r" \(\S+\.py:\d+\)$", "", str(error.value))


def test_the_digits_are_split_once_and_for_all() -> None:
    digits = load_data("digits", (1, 8, 8))
    assert (len(digits.train), len(digits.held_out), digits.classes) == (1500, 297, 10)
    assert digits.train.batch(range(10))[1].tolist() == list(range(10))
    assert set(digits.held_out.batch(range(297))[1].tolist()) == set(range(10))


def test_the_digits_are_normalised_by_the_training_part() -> None:
    inputs, _ = load_data("digits", (1, 8, 8)).train.batch(range(1500))
    assert inputs.dtype == torch.float32
    assert inputs.mean().item() == pytest.approx(0, abs=1e-4)
    assert inputs.std().item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (3, 5, 7), (2, 65, 33)])
def test_digits_take_the_networks_shape(shape: tuple[int, int, int]) -> None:
    inputs, labels = load_data("digits", shape).train.batch([3, 1, 2])
    assert inputs.shape == (3, *shape)
    assert labels.tolist() == [3, 1, 2]
    assert torch.equal(inputs[:, 0], inputs[:, -1])


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 5, 7)])
def test_a_sample_is_the_same_in_every_batch(shape: tuple[int, int, int]) -> None:
    train = load_data("digits", shape).train
    whole, labels = train.batch(range(64))
    order = np.random.default_rng(0).permutation(64)
    assert torch.equal(train.batch(order)[0], whole[order])
    for start, end in [(0, 1), (1, 4), (4, 11), (11, 64)]:
        assert torch.equal(train.batch(torch.arange(start, end))[0], whole[start:end])
    assert torch.equal(train[17][0], whole[17])
    assert train[17][1] == labels[17]


def test_enlarging_keeps_the_picture() -> None:
    small = load_data("digits", (1, 8, 8)).train.batch([0])[0]
    large = load_data("digits", (1, 64, 64)).train.batch([0])[0]
    again = torch.nn.functional.avg_pool2d(large, 8)
    assert torch.corrcoef(torch.stack([small.flatten(), again.flatten()]))[0, 1] > 0.95


def test_cifar10_is_normalised_by_its_known_means(tmp_path: Path) -> None:
    write_archive(tmp_path)
    cifar10 = load_data(f"cifar10:{tmp_path}", (3, 32, 32))
    assert (len(cifar10.train), len(cifar10.held_out), cifar10.classes) == (20, 4, 10)
    inputs, labels = cifar10.train.batch([1, 2])
    pixels = content(seed=0)[b"data"][1:3].reshape(2, 3, 32, 32) / 255
    mean, deviation = np.array([MEAN, DEVIATION]).reshape(2, 3, 1, 1)
    assert inputs.numpy() == pytest.approx((pixels - mean) / deviation, abs=1e-5)
    assert labels.tolist() == content(seed=0)[b"labels"][1:3]


@pytest.mark.parametrize("shape", [(3, 64, 64), (3, 16, 24), (1, 28, 28)])
def test_cifar10_takes_the_networks_shape(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    write_archive(tmp_path)
    assert load_data(f"cifar10:{tmp_path}", shape).held_out.batch(range(4))[0].shape == (4, *shape)


def test_an_empty_batch_is_empty(own: str) -> None:
    for name, shape in [("digits", (3, 32, 32)), (f"{own}:make", (2, 3))]:
        inputs, labels = load_data(name, shape).train.batch([])
        assert inputs.shape == (0, *shape)
        assert len(labels) == 0


def test_ones_own_data_has_a_tenth_held_out(own: str) -> None:
    data = load_data(f"{own}:make", (2, 3))
    seen = [{part[k][0][0, 0].item() for k in range(len(part))} for part in (data.train, data.held_out)]
    assert [len(part) for part in seen] == [36, 4]
    assert seen[0] | seen[1] == set(map(float, range(40)))
    assert data.classes is None
    inputs, labels = data.train.batch(np.array([5, 0]))
    assert (inputs[:, 0, 0].long() % 5).tolist() == labels.tolist()


def test_ones_own_data_may_come_in_two_parts(own: str) -> None:
    data = load_data(f"{own}:parted", (2, 3))
    assert (len(data.train), len(data.held_out), data.classes) == (8, 3, 2)
    assert data.train.batch([0])[0].mean() == 1
    assert data.held_out.batch([0])[0].mean() == 0


@pytest.mark.parametrize(
    ("callable_name", "expected"),
    [
        ("empty", "own_data:empty: returned an empty data set; expected samples"),
        ("number", "own_data:number: returned a int; expected a data set with __len__ and __getitem__"),
        ("few", "own_data:few: has 9 samples; expected 10, to hold one out"),
        ("raises", "own_data:raises: calling it failed: OSError: the disk is gone"),
        ("Broken", "own_data:Broken[0]: fetching it failed: OSError: the disk is gone"),
        ("images", "own_data:images[0]: starts with a str; expected a tensor"),
        ("triples", "own_data:triples[0]: is a tuple of 3; expected (input, target)"),
        ("words", "own_data:words[0]: its target holds a str; expected numbers or tensors"),
        ("mke", "own_data:mke: no such callable in own_data; did you mean make?"),
    ],
)
def test_data_that_cannot_be_used_says_why(own: str, callable_name: str, expected: str) -> None:
    assert fault_of(f"{own}:{callable_name}", (2, 3)) == f"data: {expected}"


def test_a_target_may_be_any_number_or_none(own: str) -> None:
    assert load_data(f"{own}:halves", (2, 3)).train.labels([0, 1]).tolist() == [0.5, 0.5]
    assert load_data(f"{own}:alone", (2, 3)).train.labels([0, 1]) is None


def test_a_target_may_be_a_tree_of_tensors(own: str) -> None:
    split = load_data(f"{own}:boxes", (2, 3)).train
    found = split.labels([2, 0])
    first, second = split[2][1], split[0][1]
    assert found["box"].tolist() == [first["box"].tolist(), second["box"].tolist()]
    assert found["kind"].tolist() == [first["kind"].item(), second["kind"].item()]


def test_targets_that_differ_in_shape_are_refused_by_name(own: str) -> None:
    with pytest.raises(InputError, match="its target is 2 of float32, that of the first sample 1 of float32"):
        load_data(f"{own}:ragged", (2, 3)).train.labels(range(5))


def test_a_wrong_shape_names_both(own: str) -> None:
    expected = "is a tensor of 2×3; the network takes 3×32×32"
    assert fault_of(f"{own}:make") == f"data: own_data:make[0]: {expected}"


def test_images_do_not_fit_every_network(tmp_path: Path) -> None:
    write_archive(tmp_path)
    assert "holds images; the network takes 128, not" in fault_of("digits", (128,))
    assert "has 3 channels, the network takes 4; expected 1 or 3" in fault_of(f"cifar10:{tmp_path}", (4, 32, 32))


def test_a_misspelt_data_set_gets_the_nearest_one() -> None:
    assert fault_of("digit") == "data: digit: no such data set; did you mean digits?"
    assert "expected one of digits, cifar10:FOLDER" in fault_of("imagenet")
    assert fault_of("tokns:a/b.bin") == "data: tokns:a/b.bin: no such data set; did you mean tokens?"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "nowhere: no such folder: expected cifar-10-batches-py" in fault_of(f"cifar10:{tmp_path}/nowhere")


def test_the_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pixels, targets = read_digits()
    assert np.array_equal(pixels, images)
    assert np.array_equal(targets, labels)


def test_several_sets_as_one_give_samples_in_the_order_asked_for() -> None:
    digits = load_data("digits", (1, 8, 8))
    assert concatenate([digits]) is digits
    both = concatenate([digits, digits])
    assert (both.name, both.classes, len(both.train), len(both.held_out)) == ("digits + digits", 10, 3000, 594)
    inputs, labels = both.train.batch([1501, 3, 2999, 0])
    expected_inputs, expected_labels = digits.train.batch([1, 3, 1499, 0])
    assert torch.equal(inputs, expected_inputs)
    assert torch.equal(labels, expected_labels)
    assert both.train[1502][1] == digits.train[2][1]


def test_a_row_in_the_registry_is_a_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATA_SETS, "ones", replace(DATA_SETS["digits"], argument="COUNT"))
    assert load_data("ones:7", (1, 8, 8)).name == "ones:7"
    assert "ones:COUNT" in fault_of("imagenet")


def test_a_public_name_has_no_folder() -> None:
    names = ("digits", "cifar10:/home/me", "own_data:make", "digits:make")
    assert [public_name(name) for name in names] == ["digits", "cifar10", "own_data:make", "digits:make"]
