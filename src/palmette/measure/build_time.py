"""How long it takes until a device can train: building the network, its optimizer, and the first pass, which finds
nothing prepared.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import torch

from palmette.measure.contexts import in_training, steady
from palmette.measure.pass_timer import Passes
from palmette.zoo.models import load_network

REPEATS = 3


class Built(NamedTuple):
    """Seconds of building a network on this machine, and of a pass of training when all is warm."""

    build_s: float
    pass_s: float


def built_here(model: str, input_shape: tuple[int, ...] | None, samples: int) -> Built:
    """Build a network and train it for a few passes of so many samples.

    Raises:
        InputError: there is no such network, or it fails in training.
    """
    began_s = perf_counter()
    network = load_network(model, input_shape, seed=0)
    weights = [each for layer in network.layers for each in layer.module.parameters()]
    if weights:
        torch.optim.SGD(weights, lr=0.0)
    with in_training(network), steady():
        passes = Passes(network, lambda _: None)
        passes.run(samples)
        build_s = perf_counter() - began_s
        pass_s = min(float(passes.run(samples).sum()) for _ in range(REPEATS))
    return Built(build_s, pass_s)
