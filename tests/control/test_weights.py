"""Weights that come from a file."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from palmette.control.weights import load
from palmette.errors import InputError
from palmette.zoo.capture import state
from palmette.zoo.models import network_from_module


class Tied(nn.Module):
    """A head whose weight is that of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.head(torch.tanh(self.embedding(numbers)))
        return values


def test_a_shared_weight_may_stand_in_the_file_under_one_of_its_names() -> None:
    network = network_from_module("tied", Tied(), torch.zeros(2, 4, dtype=torch.long))
    given = torch.randn(5, 3)
    load(network, {"embedding.weight": given}, "file")
    assert all(torch.equal(value, given) for value in state(network.layers).values())


def test_what_no_name_of_the_file_stands_for_is_missing() -> None:
    network = network_from_module("tied", Tied(), torch.zeros(2, 4, dtype=torch.long))
    with pytest.raises(InputError, match="missing"):
        load(network, {}, "file")
