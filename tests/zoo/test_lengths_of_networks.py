"""Networks cut for batches of any length, and those that only one length can be cut for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.zoo.capture import LayerChain
from palmette.zoo.capture.sizes import Size, fit_size
from palmette.zoo.lengths import VaryingAxis
from palmette.zoo.models import network_from_module

ONE = (VaryingAxis(0, 1, 0),)


class Merged(nn.Module):
    """Tokens of all samples in one row, as some attention is written."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.one, self.two = nn.Embedding(20, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        samples, length = tokens.shape
        flat = self.one(self.embedding(tokens).view(samples * length, 4))
        return self.two(torch.tanh(flat).view(samples, length, 4) + torch.arange(length).view(-1, 1) / length)


class WrittenDown(nn.Module):
    """A network with a weight for every position, and a branch in its forward that only torch.export follows."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.one, self.two = nn.Embedding(20, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.one(self.embedding(tokens))
        if tokens.shape[1] == 8:
            hidden = hidden * 2
        return self.two(hidden.mean(1))


@pytest.mark.parametrize("length", [8, 7, 3, 1])
def test_layers_compute_what_the_module_computes_at_any_length(length: int) -> None:
    torch.manual_seed(0)
    network = network_from_module("merged", Merged(), torch.randint(0, 20, (2, 8)), ONE)
    assert network.varying == ONE
    assert len(network.layers) >= 3
    tokens = torch.randint(0, 20, (5, length))
    whole: Any = LayerChain(layer.module for layer in network.layers)
    assert network.module is not None
    assert torch.allclose(whole(tokens), network.module(tokens))


def test_a_network_that_has_its_length_written_down_is_cut_for_one_and_says_so() -> None:
    network = network_from_module("written", WrittenDown(), torch.randint(0, 20, (2, 8)), ONE)
    assert not network.varying
    assert len(network.layers) > 1
    assert network.layers[0].note.startswith("every sample is padded to the longest of the data set")


def test_sizes_are_functions_of_samples_and_lengths() -> None:
    samples, lengths = [2, 3, 5, 2, 3, 5], [9, 9, 9, 8, 8, 7]
    given = [("long", lengths)]
    assert fit_size([4] * 6, samples, given) == Size(4, 0)
    assert fit_size([2 * n + 1 for n in samples], samples, given) == Size(1, 2)
    made = [3 * n * k for n, k in zip(samples, lengths, strict=True)]
    assert fit_size(made, samples, given) == Size(0, 0, 0, 3, "long")
    assert fit_size([k // 2 for k in lengths], samples, given) is None
