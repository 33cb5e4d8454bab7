"""Training of the networks: squared error for the expected change, pinball (tilted) loss for the quantiles.

As in Section VI-A of PACT, the two are added up and minimised by Adam. Changes that no curve has (an epoch after the
curve's end) are masked. The learning rate falls along a cosine. The same seed gives the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palmette.predict.examples import HORIZON, ChangeExample, RunExample
from palmette.predict.forecast import QUANTILES
from palmette.predict.network import ChangeNetwork, RunNetwork, change_inputs, run_inputs
from palmette.zoo.models import seeded

OnEpoch = Callable[[int], None]  # epochs done


@dataclass(frozen=True, kw_only=True)
class NetworkTraining:
    """Epochs, batch size, learning rate, weight decay and seed of training a network."""

    epochs: int
    batch: int
    lr: float = 3e-3
    decay: float = 0.0
    seed: int = 0


RUN_TRAINING = NetworkTraining(epochs=20, batch=128)
CHANGE_TRAINING = NetworkTraining(epochs=100, batch=64, decay=5e-3)


def pinball_loss(error: Tensor, quantile: float) -> Tensor:
    """The pinball loss of truth − prediction: least, on average, where the prediction is the quantile."""
    return torch.maximum(quantile * error, (quantile - 1) * error)


def train_run_network(
    examples: Sequence[RunExample], training: NetworkTraining = RUN_TRAINING, on_epoch: OnEpoch = lambda _: None
) -> RunNetwork:
    """λ_run, trained on moments of real trainings."""
    static, sequence, lengths = run_inputs([each.history for each in examples])
    truth = torch.full((len(examples), HORIZON), math.nan)
    for row, each in enumerate(examples):
        truth[row, : len(each.changes)] = torch.tensor(each.changes)
    with seeded(training.seed):
        network = RunNetwork()
        network.setting.fit(static)
        network.sequence.fit(sequence[torch.arange(sequence.shape[1]) < lengths[:, None]])
        network.changes.fit(truth[~truth.isnan()][:, None])
        _train(network, (static, sequence, lengths), truth, training, on_epoch)
    return network


def train_change_network(
    examples: Sequence[ChangeExample], training: NetworkTraining = CHANGE_TRAINING, on_epoch: OnEpoch = lambda _: None
) -> ChangeNetwork:
    """λ_change, trained on changes of real trainings."""
    inputs = change_inputs([(each.history, each.to) for each in examples])
    truth = torch.tensor([[each.change] for each in examples])
    with seeded(training.seed):
        network = ChangeNetwork()
        network.inputs.fit(inputs)
        network.changes.fit(truth)
        _train(network, (inputs,), truth, training, on_epoch)
    return network


def _train(
    network: RunNetwork | ChangeNetwork,
    inputs: tuple[Tensor, ...],
    truth: Tensor,
    training: NetworkTraining,
    on_epoch: OnEpoch,
) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=training.lr, weight_decay=training.decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, training.epochs)
    for epoch in range(1, training.epochs + 1):
        for at in torch.split(torch.randperm(len(truth)), training.batch):
            optimizer.zero_grad()
            predicted = network(*(each[at] for each in inputs))
            _loss(predicted, truth[at], network.changes.deviation).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()
        on_epoch(epoch)
    network.requires_grad_(requires_grad=False)


def _loss(predicted: Tensor, truth: Tensor, unit: Tensor) -> Tensor:
    """The mean loss of the changes that are known, in units of the changes' deviation."""
    known, (low, high) = ~truth.isnan(), QUANTILES
    errors = (truth[..., None] - predicted[..., :3])[known] / unit
    loss = errors[:, 0] ** 2 + pinball_loss(errors[:, 1], low) + pinball_loss(errors[:, 2], high)
    if predicted.shape[-1] > 3:
        loss = loss + pinball_loss((truth.cumsum(dim=1) - predicted[..., 3])[known] / unit[0], high)
    return loss.mean()
