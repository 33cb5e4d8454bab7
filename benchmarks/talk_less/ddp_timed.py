"""Iterations of DDP with and without its PowerSGD hook, timed on shaped links: network namespaces, padded layers.

The same ground as ``benchmarks/peers``: a rank in each device's namespace, gloo through the server over links of the
testbed, layers padded forward and backward, so that DDP overlaps what its buckets allow. Root on Linux.
"""

from __future__ import annotations

import statistics
import time
from functools import cache, partial

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.peers.crew import Crew
from benchmarks.peers.pads import PaddedLayers, Seconds, calibrated
from benchmarks.peers.tasks import Done, Lesson, MadeElsewhere, Order, Setup
from benchmarks.peers.trainers import update
from benchmarks.talk_less.ddp import BEGIN, hooked
from benchmarks.talk_less.methods import DEVICES, SAMPLES, cluster, dilation
from benchmarks.talk_less.tasks import noise, text
from palmette.cost.estimate import evaluator
from palmette.runtime.worker.dropout import Draw
from palmette.spec.profile import Profile
from palmette.zoo.models import load_network

_SAMPLES = 512
"""Of a task that is timed only."""
_STEPS = 6


def timed(name: str, profile: Profile, bandwidth_mbit: float, *, power_sgd: bool) -> float:
    """The median emulated seconds of an iteration, once PowerSGD has begun."""
    make = partial(PaddedDdp, name=name, power_sgd=power_sgd)
    known = evaluator(profile, cluster(bandwidth_mbit, _SAMPLES))
    crew = Crew(known, DEVICES, Lesson("", SAMPLES), MadeElsewhere(make), dilation(bandwidth_mbit))
    try:
        steps = [crew.step() for _ in range(BEGIN + 2 + _STEPS if power_sgd else 2 + _STEPS)]
    finally:
        crew.close()
    return statistics.median(steps[-_STEPS:])


class PaddedDdp:
    """A replica under DistributedDataParallel whose layers take as long as on its node."""

    def __init__(self, setup: Setup, *, name: str, power_sgd: bool) -> None:
        task = noise(_SAMPLES) if name == "images" else text(_SAMPLES)
        network = load_network(task.recipe(1), seed=0)
        depth = len(network.layers)
        real_s = cache(partial(calibrated, network))
        real_s(SAMPLES)  # now, and not within a step
        seconds = Seconds(setup.times, setup.dilation, 1, depth)
        self._layers = PaddedLayers([each.module.train() for each in network.layers], seconds, real_s)
        self._model = hooked(DistributedDataParallel(self._layers, gradient_as_bucket_view=True), power_sgd=power_sgd)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=task.lr, momentum=task.momentum)
        self._update_s, self._rank = seconds.update_s(), setup.rank
        self._inputs, self._labels = (each[:SAMPLES] for each in task.train.tensors)

    def step(self, order: Order) -> Done:
        """Forward, backward with the exchange of gradients, update."""
        self._layers.draw = lambda: Draw(0, order.iteration, range(SAMPLES))
        self._optimizer.zero_grad()
        began = time.monotonic()
        loss = nn.functional.cross_entropy(self._model(self._inputs), self._labels)
        loss.backward()
        update(self._optimizer, self._update_s)
        return Done(began, time.monotonic(), float(loss.detach()))
