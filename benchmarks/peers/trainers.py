"""How a worker of a peer trains: DistributedDataParallel, a stage of torch.distributed.pipelining, or a plain loop.

Both see the batches that Palmette sees. What a user would also do stands outside the clock: finding the samples of a
batch, forgetting old gradients. Weights are equal from the start, by the seed, so that DDP need not send them around.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel

from benchmarks.peers.pads import PaddedLayers, Seconds, calibrated
from benchmarks.peers.tasks import Copy, Ddp, Done, Lesson, MadeElsewhere, Order, Pipeline, PlainScript, Setup
from palmette.runtime.data.batches import Batches
from palmette.runtime.worker.cpu_queue import sleep_until
from palmette.runtime.worker.dropout import Draw, replace_dropout
from palmette.spec.profile import Times
from palmette.zoo.data import load_data
from palmette.zoo.models import Network, load_network

DEVICE_RANK = 0  # where the data is
DATA_TAG, LABEL_TAG, COPY_TAG = 1, 2, 3


class Lessons:
    """The batches of a lesson."""

    def __init__(self, lesson: Lesson, input_shape: tuple[int, ...]) -> None:
        self._part = load_data(lesson.data, input_shape).train
        self._batches = Batches(len(self._part), lesson.batch, lesson.seed)

    def batch(self, iteration: int) -> tuple[Tensor, Tensor]:
        """Inputs and labels of a batch."""
        return self._part.batch(self._batches.indices(iteration))


def padded(network: Network, first: int, last: int, setup: Setup) -> PaddedLayers:
    """Layers ``first`` to ``last``, as slow as the worker's node."""
    real_s = cache(lambda samples: calibrated(network, samples)[first - 1 : last])
    for samples in seen_samples(setup):
        real_s(samples)  # now, and not within a step
    layers = [replace_dropout(network.layers[n - 1].module.train(), str(n)) for n in range(first, last + 1)]
    return PaddedLayers(layers, Seconds(setup.times, setup.dilation, first, last), real_s)


def seen_samples(setup: Setup) -> set[int]:
    """The numbers of samples that the worker's calls will have."""
    match setup.way:
        case Ddp(splits):
            return {split[setup.rank] for split in splits}
        case Pipeline(microbatches=many):
            return {setup.lesson.batch // many}
        case PlainScript() | MadeElsewhere():
            return {setup.lesson.batch}


def mean_loss(outputs: Tensor, labels: Tensor, batch: int) -> Tensor:
    """The part of a batch's mean loss that these samples have."""
    return nn.functional.cross_entropy(outputs, labels, reduction="sum") / batch


def update(optimizer: torch.optim.Optimizer, seconds: float) -> None:
    """Update the weights, for as long as the node takes."""
    began = time.monotonic()
    optimizer.step()
    sleep_until(began + seconds)


class DdpTrainer:
    """A replica under DistributedDataParallel. Gradients are averaged over ranks, hence the loss times their number."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        network = load_network(setup.lesson.model, seed=setup.lesson.seed)
        depth = len(network.layers)
        self._lessons = Lessons(setup.lesson, network.input_shape)
        self._layers = padded(network, 1, depth, setup)
        self._model = DistributedDataParallel(self._layers, init_sync=False, gradient_as_bucket_view=True)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=setup.lesson.lr)
        self._update_s = Seconds(setup.times, setup.dilation, 1, depth).update_s()

    def step(self, order: Order) -> Done:
        """Share the batch, forward, backward with all-reduce, update."""
        setup, batch = self._setup, self._setup.lesson.batch
        ends = [sum(order.split[: rank + 1]) for rank in range(setup.world)]
        parts = [slice(end - many, end) for many, end in zip(order.split, ends, strict=True)]
        inputs, labels = self._lessons.batch(order.iteration)
        mine = parts[setup.rank]
        self._layers.draw = lambda: Draw(setup.lesson.seed, order.iteration, range(mine.start, mine.stop))
        self._optimizer.zero_grad()
        began = time.monotonic()
        pending: list[dist.Work] = []
        own = (inputs[mine], labels[mine])
        if order.send_data and setup.rank == DEVICE_RANK:
            pending = list(_scatter(inputs, labels, parts))
        elif order.send_data:
            own = _gathered(*own)
        loss = mean_loss(self._model(own[0]), own[1], batch)
        (loss * setup.world).backward()
        update(self._optimizer, self._update_s)
        for work in pending:
            work.wait()
        return Done(began, time.monotonic(), float(loss.detach()))


def _scatter(inputs: Tensor, labels: Tensor, parts: list[slice]) -> Iterable[dist.Work]:
    """Send the others their samples; returns at once."""
    for rank, part in enumerate(parts):
        if rank != DEVICE_RANK:
            yield dist.isend(inputs[part].contiguous(), rank, tag=DATA_TAG)
            yield dist.isend(labels[part].contiguous(), rank, tag=LABEL_TAG)


def _gathered(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The samples that the device sends; they are as large as the given ones."""
    found = torch.empty_like(inputs), torch.empty_like(labels)
    works = [dist.irecv(tensor, DEVICE_RANK, tag=tag) for tensor, tag in zip(found, (DATA_TAG, LABEL_TAG), strict=True)]
    for work in works:
        work.wait()
    return found


class PipelineTrainer:
    """A stage of a pipeline; the first has the samples, the last the labels."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        way, lesson = setup.way, setup.lesson
        assert isinstance(way, Pipeline)
        network = load_network(lesson.model, seed=lesson.seed)
        first, last = way.runs(len(network.layers))[setup.rank]
        self._lessons = Lessons(lesson, network.input_shape)
        self._many = lesson.batch // way.microbatches
        layers = padded(network, first, last, setup)
        layers.draw = self._next_draw
        shapes = [network.input_shape, *(layer.output_shape for layer in network.layers)]
        stage = PipelineStage(
            layers,
            setup.rank,
            setup.world,
            torch.device("cpu"),
            input_args=torch.zeros(self._many, *shapes[first - 1]).requires_grad_(first > 1),
            output_args=torch.zeros(self._many, *shapes[last]).requires_grad_(),
        )
        kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[way.schedule]
        self._schedule = kind(
            stage, way.microbatches, lambda outputs, labels: mean_loss(outputs, labels, lesson.batch), scale_grads=False
        )
        weights = list(layers.parameters())
        self._optimizer = torch.optim.SGD(weights, lr=lesson.lr) if weights else None
        self._update_s = Seconds(setup.times, setup.dilation, first, last).update_s()
        self._iteration = self._microbatch = 0

    def _next_draw(self) -> Draw:
        begin = self._microbatch * self._many
        self._microbatch += 1
        return Draw(self._setup.lesson.seed, self._iteration, range(begin, begin + self._many))

    def step(self, order: Order) -> Done:
        """All microbatches through the stage and back, update."""
        inputs, labels = self._lessons.batch(order.iteration)
        self._iteration, self._microbatch = order.iteration, 0
        losses: list[Tensor] = []
        if self._optimizer is not None:
            self._optimizer.zero_grad()
        began = time.monotonic()
        if self._setup.rank == 0:
            self._schedule.step(inputs)
        elif self._setup.rank == self._setup.world - 1:
            self._schedule.step(target=labels, losses=losses, return_outputs=False)
        else:
            self._schedule.step()
        if self._optimizer is not None:
            update(self._optimizer, self._update_s)
        return Done(began, time.monotonic(), sum(float(loss.detach()) for loss in losses))


class PlainTrainer:
    """The whole network in a plain loop, on the last rank; the others have only sent their samples."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._trains = setup, setup.rank == setup.world - 1
        network = load_network(setup.lesson.model, seed=setup.lesson.seed)
        depth = len(network.layers)
        self._lessons = Lessons(setup.lesson, network.input_shape)
        self._layers = padded(network, 1, depth, setup)
        self._optimizer = torch.optim.SGD(self._layers.parameters(), lr=setup.lesson.lr)
        self._update_s = Seconds(setup.times, setup.dilation, 1, depth).update_s()

    def step(self, order: Order) -> Done:
        """Forward, backward, update."""
        if not self._trains:
            return Done(math.inf, -math.inf, 0.0)
        setup = self._setup
        self._layers.draw = lambda: Draw(setup.lesson.seed, order.iteration, range(setup.lesson.batch))
        inputs, labels = self._lessons.batch(order.iteration)
        self._optimizer.zero_grad()
        began = time.monotonic()
        loss = mean_loss(self._layers(inputs), labels, setup.lesson.batch)
        loss.backward()
        update(self._optimizer, self._update_s)
        return Done(began, time.monotonic(), float(loss.detach()))


def copy_samples(setup: Setup, copy: Copy) -> Done:
    """Send, or receive, as many bytes as the stored samples have; what is in them does not matter to a link."""
    began = time.monotonic()
    if setup.rank == DEVICE_RANK:
        others = [(rank, size) for rank, size in enumerate(copy.size_bytes) if rank != DEVICE_RANK and size]
        works = [dist.isend(torch.zeros(size, dtype=torch.uint8), rank, tag=COPY_TAG) for rank, size in others]
        for work in works:
            work.wait()
    elif copy.size_bytes[setup.rank]:
        dist.recv(torch.empty(copy.size_bytes[setup.rank], dtype=torch.uint8), DEVICE_RANK, tag=COPY_TAG)
    return Done(began, time.monotonic(), 0.0)


def reference_losses(lesson: Lesson, steps: int) -> list[float]:
    """The loss of each step in one process."""
    network = load_network(lesson.model, seed=lesson.seed)
    lessons = Lessons(lesson, network.input_shape)
    layers = [replace_dropout(layer.module.train(), str(n)) for n, layer in enumerate(network.layers, 1)]
    times = Seconds(_no_times(len(layers)), 1.0, 1, len(layers))
    model = PaddedLayers(layers, times, lambda _: [0.0] * len(layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=lesson.lr)
    losses = []
    for iteration in range(steps):
        model.draw = lambda k=iteration: Draw(lesson.seed, k, range(lesson.batch))
        inputs, labels = lessons.batch(iteration)
        optimizer.zero_grad()
        loss = mean_loss(model(inputs), labels, lesson.batch)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def _no_times(depth: int) -> Times:
    nothing = (0.0,) * depth
    return Times(forward_s=nothing, backward_s=nothing, update_s=nothing, source="modelled")
