"""The network cut in two, and what travels between: bytes, seconds and losses for each codec of outputs.

A device with private images has the first layers, a server the rest. What is learnt is replayed in one process: the
batches, codecs and kept outputs of a real run, without workers. Seconds are those of the event clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import palmette as pt
from benchmarks.command import progress
from benchmarks.talk_less.tasks import Task, warmup
from palmette.compress.codec import CODERS
from palmette.compress.coders.base import Coder
from palmette.compress.delta_coding import DeltaCoding
from palmette.runtime.data.batches import Batches
from palmette.runtime.schedule import rate_factor
from palmette.spec.cluster import Cluster
from palmette.spec.codec import CODEC_KINDS, Codec, returning_codec
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.hardware_defaults import fill_hardware_defaults

BATCH, EPOCHS, CUT = 32, 6, 2
"""Samples of an iteration, epochs, and the layer that the network is cut after."""
LABEL_BYTES = 8


def cut_in_two(task: Task, bandwidth_mbit: float, seed: int = 0) -> dict[str, Any]:
    """A row for each codec of outputs."""
    world = cluster(bandwidth_mbit, len(task.train))
    profile = pt.profile(task.recipe(_iterations(task)), cluster=world)
    return {codec: _row(task, codec, profile, world, seed) for codec in CODEC_KINDS}


def cluster(bandwidth_mbit: float, samples: int) -> Cluster:
    """A device with private samples, and a server."""
    device = {"tier": "device", "hardware": "raspberry-pi-4", "source": {"samples": samples, "private": True}}
    nodes = {"one": device, "server": {"tier": "edge", "hardware": "nuc-i3-7100u-1"}}
    link = {"between": ["one", "server"], "bandwidth": f"{bandwidth_mbit:g} Mbit/s"}
    return fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": [link]}))


def plan(profile: Profile, codec: Codec) -> Plan:
    """The first layers on the device, the others on the server."""
    first = {"id": "first", "layers": [1, CUT], "node": "one", "into": "rest", "codec": codec}
    rest = {"id": "rest", "layers": [CUT + 1, len(profile.layers)], "node": "server"}
    sources = [{"node": "one", "samples": BATCH, "into": "first"}]
    phase = Phase.model_validate({"sources": sources, "instances": [first, rest], "epochs": EPOCHS})
    return Plan(model=profile.model, batch=BATCH, phases=(phase,))


def _iterations(task: Task) -> int:
    return EPOCHS * (len(task.train) // BATCH)


def _row(task: Task, codec: Codec, profile: Profile, world: Cluster, seed: int) -> dict[str, Any]:
    progress(f"{task.name}: cut in two, {codec}")
    found = pt.estimate(plan(profile, codec), profile=profile, cluster=world)
    kept = found.nodes["one"].peak_memory_bytes
    estimated = {"first_epoch_s": found.first_epoch_s, "epoch_s": found.epoch_s, "total_s": found.total_s}
    sizes = {"estimated_bytes": found.total_bytes, "device_memory_bytes": kept}
    return {**replayed(task, codec, seed), **estimated, **sizes, "how": "replayed; seconds of the event clock"}


def replayed(task: Task, codec: Codec, seed: int = 0) -> dict[str, Any]:
    """The losses on held-out data after each epoch, and each epoch's bytes and what its outputs have lost."""
    torch.manual_seed(seed)
    model, ends = task.make(), _Ends(codec, len(task.train))
    optimizer = torch.optim.SGD(model.parameters(), task.lr, momentum=task.momentum)
    batches, many = Batches(len(task.train), BATCH, seed), _iterations(task)
    losses, sent, lost = list[float](), list[int](), list[float]()
    for number in range(many):
        factor = rate_factor("cosine", number, many, warmup(many))
        optimizer.param_groups[0]["lr"] = factor * task.lr
        _iterate(model, task.train, batches.indices(number), ends, optimizer)
        if (number + 1) % (many // EPOCHS) == 0:
            losses.append(round(_loss(model, task.held_out), 4))
            sent.append(ends.sent_bytes - sum(sent))
            lost.append(ends.take_error())
    return {"losses": losses, "bytes": sent, "output_error": lost}


class _Ends:
    """Both ends of the link: what arrives of a message, and how many bytes it takes."""

    def __init__(self, codec: Codec, samples: int) -> None:
        self._codec, self.sent_bytes, self._errors = codec, 0, list[float]()
        self._kept = [DeltaCoding(codec, samples) for _ in range(2)] if CODEC_KINDS[codec].keeps else None

    def output(self, values: Tensor, drawn: list[int]) -> Tensor:
        self.sent_bytes += LABEL_BYTES * len(drawn)
        coders = [CODERS[self._codec]] * 2 if self._kept is None else [each.of(drawn) for each in self._kept]
        arrived = self._arriving(values, coders[0], coders[1])
        self._errors.append(float((arrived - values).norm() / values.norm()))
        return arrived

    def take_error(self) -> float:
        """What outputs have lost since the last time, as a part of them, in the mean."""
        found, self._errors = float(np.mean(self._errors)), []
        return round(found, 5)

    def gradient(self, values: Tensor) -> Tensor:
        coder = CODERS[returning_codec(self._codec)]
        return self._arriving(values, coder, coder)

    def _arriving(self, values: Tensor, sender: Coder, receiver: Coder) -> Tensor:
        message = sender.compress(values, {})
        self.sent_bytes += message.numel()
        return receiver.extract(message, tuple(values.shape), values.dtype)


def _iterate(
    model: nn.Module, train: TensorDataset, drawn: np.ndarray, ends: _Ends, optimizer: torch.optim.Optimizer
) -> None:
    layers = list(model.children())
    inputs, labels = (each[torch.from_numpy(drawn)] for each in train.tensors)
    output = nn.Sequential(*layers[:CUT])(inputs)
    arrived = ends.output(output.detach(), drawn.tolist()).requires_grad_()
    loss = nn.functional.cross_entropy(nn.Sequential(*layers[CUT:])(arrived), labels)
    optimizer.zero_grad()
    loss.backward()
    assert arrived.grad is not None
    output.backward(ends.gradient(arrived.grad))
    optimizer.step()


def _loss(model: nn.Module, part: TensorDataset) -> float:
    inputs, labels = part.tensors
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(inputs), labels))
