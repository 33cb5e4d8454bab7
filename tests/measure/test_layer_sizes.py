"""Sizes and FLOPs are those that one works out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from palmette.errors import InputError
from palmette.measure.contexts import no_progress
from palmette.measure.layer_sizes import input_bytes, layer_sizes
from palmette.spec.profile import Layer
from palmette.zoo.capture import cut
from palmette.zoo.models import Network, load_network
from tests.measure.networks import network, tiny


def sizes(*children: nn.Module, shape: tuple[int, ...]) -> tuple[Layer, ...]:
    return layer_sizes(network(*children, shape=shape), no_progress)


def test_the_first_layer_of_lenet_is_the_example_of_the_format() -> None:
    lenet = load_network("lenet5")
    first = layer_sizes(lenet, no_progress)[0]
    assert input_bytes(lenet) == 12288
    sizes = {"parameter_bytes": 1824, "output_bytes": 18816, "flops": 705600, "activation_bytes": 37632}
    assert first == Layer(name="conv1", **sizes, output_channels=6, weight_shapes=((6, 3, 5, 5), (6,)))


def test_a_network_written_by_hand() -> None:
    assert layer_sizes(tiny(), no_progress) == (
        Layer(
            name="0",
            parameter_bytes=0,
            output_bytes=32,
            flops=0,
            activation_bytes=0,
            output_channels=8,
            gradient_bytes=0,
            weight_shapes=(),
        ),
        Layer(
            name="1",
            parameter_bytes=4 * (8 * 4 + 4),
            output_bytes=16,
            flops=2 * 8 * 4,
            activation_bytes=16,
            output_channels=4,
            weight_shapes=((4, 8), (4,)),
        ),
        Layer(
            name="2",
            parameter_bytes=0,
            output_bytes=16,
            flops=0,
            activation_bytes=16,
            output_channels=4,
            weight_shapes=(),
        ),
        Layer(
            name="3",
            parameter_bytes=4 * (4 * 2 + 2),
            output_bytes=8,
            flops=2 * 4 * 2,
            activation_bytes=8,
            output_channels=2,
            weight_shapes=((2, 4), (2,)),
        ),
    )


@pytest.mark.parametrize(
    ("conv", "flops"),
    [
        (nn.Conv2d(3, 4, 3, padding=1), 2 * 64 * 4 * 3 * 9),
        (nn.Conv2d(3, 4, 2, stride=2, bias=False), 2 * 16 * 4 * 3 * 4),
        (nn.Conv2d(3, 6, 3, padding=1, groups=3), 2 * 64 * 6 * 9),
    ],
    ids=["plain", "strided", "grouped"],
)
def test_a_multiply_add_of_a_convolution_is_two(conv: nn.Conv2d, flops: int) -> None:
    (layer,) = sizes(conv, shape=(3, 8, 8))
    assert layer.flops == flops


def test_what_works_in_place_keeps_nothing_more() -> None:
    (layer,) = sizes(nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)), shape=(4,))
    assert layer.activation_bytes == 16


def test_dropout_keeps_its_mask() -> None:
    (layer,) = sizes(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), shape=(4,))
    assert layer.activation_bytes == 3 * 16


def test_max_pooling_keeps_where_the_maxima_were() -> None:
    (layer,) = sizes(nn.MaxPool2d(2), shape=(1, 4, 4))
    assert (layer.output_bytes, layer.activation_bytes) == (16, 16 + 4 * 8)


def test_statistics_of_batch_norm_do_not_count_for_a_sample() -> None:
    (layer,) = sizes(nn.BatchNorm1d(4), shape=(4,))
    assert (layer.parameter_bytes, layer.activation_bytes) == (2 * 16, 16)


def test_other_numbers_have_their_own_size() -> None:
    module = nn.Sequential(nn.Linear(4, 2)).double()
    wide = Network("wide", cut(module, torch.rand(2, 4, dtype=torch.float64)), (4,), torch.float64)
    (layer,) = layer_sizes(wide, no_progress)
    assert (input_bytes(wide), layer.parameter_bytes, layer.output_bytes) == (32, 80, 16)


def test_a_layer_that_fails_is_named() -> None:
    class Picky(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > 2 and x.requires_grad:
                raise RuntimeError("too many")
            return super().forward(x)

    with pytest.raises(InputError, match="hand: its layer 1 fails on 3 samples in training: RuntimeError: too many"):
        sizes(nn.Linear(4, 4), Picky(4, 4), shape=(4,))
