"""What a method learns, replayed in one process: the arithmetic, batches and slices of a real run, without workers.

A run of a thousand iterations takes seconds instead of minutes, and what it learns does not depend on how busy the
machine is. ``check`` compares it with a real run. Where parts of the network have their turns, there is no replay.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.talk_less.methods import DEVICES, EVALUATED_EVERY, SAMPLES
from benchmarks.talk_less.tasks import Task, warmup
from palmette.compress.codec import exchange_coder
from palmette.compress.error_feedback import ErrorFeedback
from palmette.predict.learned import single_thread
from palmette.runtime.data.batches import Batches, shards
from palmette.runtime.schedule import rate_factor
from palmette.spec.plan import Phase
from palmette.spec.sync import OuterOptimizer

Slices = Callable[[int], list[np.ndarray]]
"""The samples that each replica takes in an iteration."""
_COUNT_BYTES = 8
"""The number of samples beside the weights that a replica sends."""


def replayed(task: Task, phase: Phase, iterations: int, seed: int = 0, warm: int | None = None) -> dict[str, Any]:
    """The losses on held-out data, that on other such data in the end, and the bytes exchanged in an iteration.

    The learning rate rises for ``warm`` iterations, by default as long as the task says for so many. One thread
    computes, as in a worker: codecs like ``lowrank`` enlarge what several round otherwise.
    """
    apart = phase.every or phase.sync == "epoch"
    replay = _Windows(task, phase, iterations, seed) if apart else _Steps(task, phase, iterations, seed)
    replay.warm = replay.warm if warm is None else warm
    with single_thread():
        evaluations = [(number, round(held_out_loss(replay.model, task.held_out), 4)) for number in replay]
        chosen_on = round(held_out_loss(replay.model, task.chosen_on), 4)
    return {
        "evaluations": evaluations,
        "chosen_on": chosen_on,
        "bytes_an_iteration": replay.bytes_an_iteration,
    }


class _Training:
    """A model, the batches that all replicas share, and the rate of an iteration."""

    def __init__(self, task: Task, phase: Phase, iterations: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.task, self.phase, self.iterations, self.seed = task, phase, iterations, seed
        self.warm = warmup(iterations)
        self.model = task.make()
        self.weights = list(self.model.parameters())
        self.shares = _shares(phase)
        batches, ends = Batches(len(task.train), phase.batch, seed), np.cumsum(self.shares)[:-1]
        self.slices: Slices = lambda number: np.split(np.asarray(batches.indices(number)), ends)

    def __iter__(self) -> Iterator[int]:
        for number in range(self.iterations):
            self.iterate(number)
            if (number + 1) % EVALUATED_EVERY == 0:
                yield number + 1

    def iterate(self, number: int) -> None:
        raise NotImplementedError

    def optimizer(self, model: nn.Module) -> torch.optim.SGD:
        return torch.optim.SGD(model.parameters(), self.task.lr, momentum=self.task.momentum)

    def set_rate(self, optimizer: torch.optim.Optimizer, number: int) -> None:
        factor = rate_factor("cosine", number, self.iterations, self.warm)
        optimizer.param_groups[0]["lr"] = factor * self.task.lr

    def gradients(self, model: nn.Module, taken: np.ndarray, share: float = 1.0) -> list[Tensor]:
        inputs, labels = (each[torch.from_numpy(taken)] for each in self.task.train.tensors)
        loss = share * nn.functional.cross_entropy(model(inputs), labels)
        return list(torch.autograd.grad(loss, list(model.parameters())))

    def exchange_bytes(self) -> int:
        """What all replicas send to where they meet, and get back."""
        away = sum(each.node != _meeting_node(self.phase) for each in self.phase.instances)
        return 2 * away * sum(self.phase.exchange.bytes_of(tuple(each.shape)) for each in self.weights)


class _Steps(_Training):
    """``step``: gradients go to a server and back, coded at both ends."""

    def __init__(self, task: Task, phase: Phase, iterations: int, seed: int) -> None:
        super().__init__(task, phase, iterations, seed)
        self._optimizer = self.optimizer(self.model)
        self._ends = _ends(phase)

    @property
    def bytes_an_iteration(self) -> float:
        return self.exchange_bytes()

    def iterate(self, number: int) -> None:
        self.set_rate(self._optimizer, number)
        found = [self.gradients(self.model, taken, len(taken) / self.phase.batch) for taken in self.slices(number)]
        *devices, server = self._ends
        for k, weight in enumerate(self.weights):
            sent = [self._arriving(end, k, own[k]) for end, own in zip(devices, found, strict=True)]
            weight.grad = self._arriving(server, k, torch.stack(sent).sum(0))
        self._optimizer.step()

    def _arriving(self, end: ErrorFeedback | None, k: int, values: Tensor) -> Tensor:
        return values if end is None else _coded(end, str(k), values)


class _Windows(_Training):
    """``every`` and ``epoch``: replicas take steps of their own, and a server averages what they have changed."""

    def __init__(self, task: Task, phase: Phase, iterations: int, seed: int) -> None:
        super().__init__(task, phase, iterations, seed)
        if phase.turns is not None:
            raise ValueError("expected a method without turns")
        self._window, self._fresh = phase.every or EVALUATED_EVERY, phase.sync == "epoch"
        self._replicas = [copy.deepcopy(self.model) for _ in self.shares]
        self._optimizers = [self.optimizer(each) for each in self._replicas]
        self._ends = _ends(phase)
        chosen = phase.outer or OuterOptimizer(lr=1.0, momentum=0.0, nesterov=False)
        nesterov = chosen.nesterov and chosen.momentum > 0
        self._outer = torch.optim.SGD(self.weights, chosen.lr, momentum=chosen.momentum, nesterov=nesterov)
        if self._fresh:
            self.slices = own_slices(len(task.train), seed)

    @property
    def bytes_an_iteration(self) -> float:
        counts = len(DEVICES) * _COUNT_BYTES
        exchanges = math.ceil(EVALUATED_EVERY / self._window)
        return (self.exchange_bytes() + counts) * exchanges / EVALUATED_EVERY

    def iterate(self, number: int) -> None:
        for model, optimizer, taken in zip(self._replicas, self._optimizers, self.slices(number), strict=True):
            self.set_rate(optimizer, number)
            for weight, gradient in zip(model.parameters(), self.gradients(model, taken), strict=True):
                weight.grad = gradient
            optimizer.step()
        place = number % EVALUATED_EVERY + 1
        if place % self._window == 0 or place == EVALUATED_EVERY:  # an epoch ends with an exchange
            self._exchange()

    def _exchange(self) -> None:
        *devices, server = self._ends
        parts = [share / sum(self.shares) for share in self.shares]
        replicas = zip(*(each.parameters() for each in self._replicas), strict=True)
        begun = [weight.detach().clone() for weight in self.weights]
        with torch.no_grad():
            for k, (weight, own) in enumerate(zip(self.weights, replicas, strict=True)):
                sent = [self._arriving(end, k, each, weight) for end, each in zip(devices, own, strict=True)]
                weight.grad = weight - torch.stack([a * each for a, each in zip(parts, sent, strict=True)]).sum(0)
        self._outer.step()
        with torch.no_grad():
            for k, (weight, before) in enumerate(zip(self.weights, begun, strict=True)):
                weight.copy_(self._arriving(server, k, weight.clone(), before))
        for each in self._replicas:
            each.load_state_dict(self.model.state_dict())
        if self._fresh:
            self._optimizers = [self.optimizer(each) for each in self._replicas]

    def _arriving(self, end: ErrorFeedback | None, k: int, weight: Tensor, begun: Tensor) -> Tensor:
        return weight if end is None else begun + _coded(end, str(k), weight - begun)


def _shares(phase: Phase) -> list[int]:
    """The samples of a batch that each replica takes, of the whole network at each place."""
    return [sum(each.samples for each in phase.sources if each.into == own.id) for own in phase.instances]


def _meeting_node(phase: Phase) -> str:
    return phase.meet or phase.meeting_node


def _ends(phase: Phase) -> list[ErrorFeedback | None]:
    """What codes for each replica, and for where they meet; None where numbers arrive as they are."""
    away = [each.node != _meeting_node(phase) for each in phase.instances]
    lossy = phase.exchange.kind.lossy
    return [ErrorFeedback(exchange_coder(phase.exchange)) if lossy and far else None for far in (*away, True)]


def own_slices(samples: int, seed: int) -> Slices:
    """The samples that each replica takes of its own data."""
    owned = shards(samples, [1.0] * len(DEVICES), seed)
    drawn = [Batches(len(each), SAMPLES, seed + k) for k, each in enumerate(owned)]
    return lambda number: [own[each.indices(number)] for own, each in zip(owned, drawn, strict=True)]


def _coded(end: ErrorFeedback, name: str, values: Tensor) -> Tensor:
    """What arrives of values, with what was left out of earlier ones."""
    late = end.take_residual(name)
    return end.compress(name, (values if late is None else values + late).detach())[1]


def held_out_loss(model: nn.Module, part: TensorDataset) -> float:
    """The loss on data that nothing is trained on."""
    inputs, labels = part.tensors
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(inputs), labels))
