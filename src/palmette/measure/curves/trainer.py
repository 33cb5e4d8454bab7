"""Trains a network in one process: plain PyTorch with SGD and momentum."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from palmette.errors import ArgumentFault, InputError, RunError
from palmette.measure.curves.node_sets import NodeSetData
from palmette.zoo.example_inputs import example_input
from palmette.zoo.models import Network, load_network, seeded

_CHUNK = 256


@dataclass(frozen=True, kw_only=True)
class CurveRecipe:
    """How to train: the network, the data, the samples of a batch, learning rate and momentum.

    ``input_shape`` is that of one sample, where the network does not say.
    """

    model: str
    data: str
    batch: int
    lr: float
    momentum: float = 0.9
    input_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        wrong = [ArgumentFault("batch", self.batch, "expected 1 or more")] if self.batch < 1 else []
        if not 0 < self.lr < math.inf:
            wrong.append(ArgumentFault("lr", self.lr, "expected a number above 0"))
        if wrong:
            raise InputError(wrong)

    def network(self, seed: int = 0) -> Network:
        """The network, with initial weights by the seed.

        Raises:
            InputError: there is no such network, or it does not take samples of this shape.
        """
        return load_network(self.model, self.input_shape, seed=seed)


@dataclass(eq=False)
class Trainer:
    """A module with its optimizer, and a batch to trace it with."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    example: Tensor
    batch: int

    def clone(self) -> Trainer:
        """An independent copy."""
        module, optimizer = copy.deepcopy((self.module, self.optimizer))
        return Trainer(module, optimizer, self.example, self.batch)

    def state_bytes(self) -> bytes:
        """Weights and the optimizer's state, for another process."""
        buffer = io.BytesIO()
        torch.save((self.module.state_dict(), self.optimizer.state_dict()), buffer)
        return buffer.getvalue()

    def load(self, saved: bytes) -> None:
        """Restore weights and the optimizer's state."""
        weights, state = torch.load(io.BytesIO(saved), weights_only=True)
        self.module.load_state_dict(weights)
        self.optimizer.load_state_dict(state)

    def loss(self, data: NodeSetData) -> float:
        """The mean loss of a forward pass.

        Raises:
            RunError: it is not finite.
        """
        self.module.eval()
        with torch.no_grad():
            parts = zip(torch.split(data.inputs, _CHUNK), torch.split(data.labels, _CHUNK), strict=True)
            total = sum(float(cross_entropy(self.module(x), y, reduction="sum")) for x, y in parts)
        return _finite(total / len(data.labels))

    def train(self, data: NodeSetData, epochs: int, seed: int, keep: Collection[int] = ()) -> TrainResult:
        """Train for some epochs, shuffled by the seed; keeps copies after the epochs in ``keep``.

        Raises:
            RunError: a loss is not finite.
        """
        losses, kept = [], {}
        # As the data is; otherwise an epoch takes half as long again.
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        with seeded(seed):
            for epoch in range(1, epochs + 1):
                losses.append(_finite(self._epoch(data)))
                if epoch in keep:
                    kept[epoch] = self.clone()
        return TrainResult(tuple(losses), kept)

    def _epoch(self, data: NodeSetData) -> float:
        """The mean loss of the samples in training.

        Batches have the same size, or one less: a last batch of what is left over, even a single sample, would move the
        weights as far as any other, and every epoch would begin with a loss that it had raised.
        """
        self.module.train()
        total, samples = 0.0, len(data.labels)
        for at in torch.tensor_split(torch.randperm(samples), math.ceil(samples / self.batch)):
            self.optimizer.zero_grad()
            loss = cross_entropy(self.module(data.inputs[at]), data.labels[at])
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total += float(loss.detach()) * len(at)
        return total / samples


@dataclass(frozen=True)
class TrainResult:
    """The loss of each epoch, and copies of the trainer after some of them."""

    losses: tuple[float, ...]
    kept: dict[int, Trainer]


def new_trainer(recipe: CurveRecipe, seed: int) -> Trainer:
    """A trainer of the network with initial weights by the seed.

    Raises:
        InputError: there is no such network.
    """
    network = recipe.network(seed)
    assert network.module is not None, "a network that is loaded by name has its module"
    optimizer = torch.optim.SGD(network.module.parameters(), lr=recipe.lr, momentum=recipe.momentum)
    return Trainer(network.module, optimizer, example_input(network.input_shape, network.dtype), recipe.batch)


def _finite(loss: float) -> float:
    if not math.isfinite(loss):
        raise RunError(f"a training has a loss of {loss}; try a smaller learning rate (--lr)")
    return loss
