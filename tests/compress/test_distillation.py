"""A smaller network that is taught by a larger one comes to say what it says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from palmette.compress.distillation import Distillation, distill
from palmette.compress.networks import prune_network
from palmette.zoo.capture import state
from palmette.zoo.data import load_data
from palmette.zoo.models import Network, load_network

NAME = "tests.runtime.networks:tiny"


def whole(network: Network) -> nn.Module:
    return nn.Sequential(*[layer.module for layer in network.layers]).eval()


@pytest.fixture(scope="module")
def taught() -> tuple[Network, Network, Network]:
    """A teacher that knows something, what pruning leaves of it, and the same taught."""
    data, teacher = load_data("digits", (1, 8, 8)).train, load_network(NAME, seed=0)
    own = nn.Sequential(*[layer.module for layer in teacher.layers]).train()
    optimizer = torch.optim.Adam(own.parameters(), lr=0.01)
    for _ in range(8):
        for begin in range(0, 1500, 50):
            inputs, labels = data.batch(range(begin, begin + 50))
            optimizer.zero_grad()
            functional.cross_entropy(own(inputs), labels).backward()
            optimizer.step()
    pruned, _ = prune_network(teacher, 0.5)
    student, _ = prune_network(teacher, 0.5)
    distill(student, teacher, data, np.arange(1500), Distillation(epochs=4, batch=50))
    return teacher, pruned, student


def off(teacher: Network, other: Network) -> float:
    inputs, _ = load_data("digits", (1, 8, 8)).held_out.batch(range(200))
    with torch.no_grad():
        wanted, said = (functional.log_softmax(whole(each)(inputs), 1) for each in (teacher, other))
    return float(functional.kl_div(said, wanted, reduction="batchmean", log_target=True))


def test_a_student_is_nearer_to_its_teacher_than_what_pruning_leaves(taught: tuple[Network, Network, Network]) -> None:
    teacher, pruned, student = taught
    assert off(teacher, student) < 0.75 * off(teacher, pruned)


def test_the_teacher_stays_as_it_is_and_so_does_chance(taught: tuple[Network, Network, Network]) -> None:
    teacher, pruned, _ = taught
    before = {name: value.clone() for name, value in state(teacher.layers).items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    data = load_data("digits", (1, 8, 8)).train
    students = [prune_network(teacher, 0.5)[0] for _ in range(2)]
    for student in students:
        distill(student, teacher, data, np.arange(7), Distillation(seed=1))
    assert torch.equal(torch.rand(2), expected)
    assert all(torch.equal(value, before[name]) for name, value in state(teacher.layers).items())
    one, other = (state(student.layers) for student in students)
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert any(not torch.equal(value, state(pruned.layers)[name]) for name, value in one.items())
