"""The time until a device can train: building the network and its optimizer, and the first pass, which is cold."""

from __future__ import annotations

from time import perf_counter

import torch

from palmette.measure.contexts import stable_timing, training_mode
from palmette.measure.pass_timer import PassTimer
from palmette.runtime.engines.probes import BuildTime
from palmette.zoo.models import load_network

REPEATS = 3


def measure_build_time(model: str, input_shape: tuple[int, ...] | None, samples: int) -> BuildTime:
    """Build a network, and time a few training passes of so many samples.

    Raises:
        InputError: there is no such network, or it fails in training.
    """
    began_s = perf_counter()
    network = load_network(model, input_shape, seed=0)
    weights = [each for layer in network.layers for each in layer.module.parameters()]
    if weights:
        torch.optim.SGD(weights, lr=0.0)
    with training_mode(network), stable_timing():
        timer = PassTimer(network, lambda _: None)
        built_s = perf_counter()
        timer.run(samples)
        ready_s = perf_counter()
        pass_s = min(float(timer.run(samples).sum()) for _ in range(REPEATS))
    return BuildTime(built_s - began_s, ready_s - built_s, pass_s)
