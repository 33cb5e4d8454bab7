"""A network in training: plain PyTorch with SGD and momentum, in one process."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from palmette.errors import Fault, InputError, RunError
from palmette.measure.curves.node_sets import Shard
from palmette.zoo.models import example_input, load_network, seeded

_CHUNK = 256


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train: the network, the data, the samples of a batch, learning rate and momentum."""

    model: str
    data: str
    batch: int
    lr: float
    momentum: float = 0.9

    def __post_init__(self) -> None:
        wrong = [Fault("--batch", self.batch, "expected 1 or more")] if self.batch < 1 else []
        if not 0 < self.lr < math.inf:
            wrong.append(Fault("--lr", self.lr, "expected a number above 0"))
        if wrong:
            raise InputError(wrong)


@dataclass(eq=False)
class Learner:
    """A module with its optimizer, and a batch to trace it with."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    example: Tensor
    batch: int

    def twin(self) -> Learner:
        """Another that goes on from here."""
        module, optimizer = copy.deepcopy((self.module, self.optimizer))
        return Learner(module, optimizer, self.example, self.batch)

    def saved(self) -> bytes:
        """Weights and the optimizer's state, for another process."""
        buffer = io.BytesIO()
        torch.save((self.module.state_dict(), self.optimizer.state_dict()), buffer)
        return buffer.getvalue()

    def load(self, saved: bytes) -> None:
        """Go on from what was saved."""
        weights, state = torch.load(io.BytesIO(saved), weights_only=True)
        self.module.load_state_dict(weights)
        self.optimizer.load_state_dict(state)

    def loss(self, shard: Shard) -> float:
        """The mean loss of a forward pass.

        Raises:
            RunError: it is not finite.
        """
        self.module.eval()
        with torch.no_grad():
            parts = zip(torch.split(shard.inputs, _CHUNK), torch.split(shard.labels, _CHUNK), strict=True)
            total = sum(float(cross_entropy(self.module(x), y, reduction="sum")) for x, y in parts)
        return _finite(total / len(shard.labels))

    def train(self, shard: Shard, epochs: int, seed: int, keep: Collection[int] = ()) -> Trained:
        """Train for some epochs, shuffled by the seed; twins are kept of what it is after the epochs in ``keep``.

        Raises:
            RunError: a loss is not finite.
        """
        losses, kept = [], {}
        # As the shards are; without, an epoch takes half as long again.
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        with seeded(seed):
            for epoch in range(1, epochs + 1):
                losses.append(_finite(self._epoch(shard)))
                if epoch in keep:
                    kept[epoch] = self.twin()
        return Trained(tuple(losses), kept)

    def _epoch(self, shard: Shard) -> float:
        """The mean loss of the samples as they were seen.

        Batches are all of a size, or smaller by one: a last one of what is left over, be it a single sample, would
        move the weights as far as any other, and every epoch would begin with a loss that it had lifted.
        """
        self.module.train()
        total, many = 0.0, len(shard.labels)
        for at in torch.tensor_split(torch.randperm(many), math.ceil(many / self.batch)):
            self.optimizer.zero_grad()
            loss = cross_entropy(self.module(shard.inputs[at]), shard.labels[at])
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total += float(loss.detach()) * len(at)
        return total / many


@dataclass(frozen=True)
class Trained:
    """The loss of each epoch, and the learner after some of them."""

    losses: tuple[float, ...]
    kept: dict[int, Learner]


def fresh(recipe: Recipe, seed: int) -> Learner:
    """The network with its first weights by the seed.

    Raises:
        InputError: there is no such network.
    """
    network = load_network(recipe.model, seed=seed)
    assert network.module is not None, "a network that is loaded by its name knows its module"
    optimizer = torch.optim.SGD(network.module.parameters(), lr=recipe.lr, momentum=recipe.momentum)
    return Learner(network.module, optimizer, example_input(network.input_shape, network.dtype), recipe.batch)


def _finite(loss: float) -> float:
    if not math.isfinite(loss):
        raise RunError(f"a training has a loss of {loss}; try a smaller learning rate (--lr)")
    return loss
