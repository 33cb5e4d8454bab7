"""A network is judged by the numbers that its workers would be given."""

from __future__ import annotations

import pytest
import torch

from palmette.runtime.options import Options
from palmette.runtime.training.evaluation import evaluate
from palmette.zoo.data.custom import CustomSplit
from palmette.zoo.models import load_network
from palmette.zoo.recipes.objective import classification

SHAPE = (3, 32, 32)


def items(dtype: torch.dtype) -> CustomSplit:
    pixels = torch.arange(3 * 32 * 32).reshape(SHAPE) % 256
    return CustomSplit("own", [((pixels + k).remainder(256).to(dtype), k % 10) for k in range(20)], range(20), SHAPE)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float64])
def test_images_of_whole_numbers_are_as_good_as_the_same_with_a_point(dtype: torch.dtype) -> None:
    network, objective = load_network("lenet5", seed=1), classification(10)
    assert evaluate(network, items(dtype), objective, Options()) == evaluate(
        network, items(torch.float32), objective, Options()
    )
