"""How the networks learn: squared error for the expected change, tilted (pinball) loss for the quantiles.

As in Section VI-A of PACT, the two are added up and minimised by Adam. Changes that no curve knows (an epoch after the
curve's end) count for nothing. The learning rate falls along a cosine. The same seed gives the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palmette.predict.examples import HORIZON, Change, Run
from palmette.predict.forecast import QUANTILES
from palmette.predict.network import ChangeNetwork, RunNetwork, change_inputs, run_inputs
from palmette.zoo.models import seeded

Told = Callable[[int], None]  # epochs done


@dataclass(frozen=True, kw_only=True)
class Lessons:
    """How long and how fast to learn, how strongly weights are drawn to 0, and by which seed."""

    epochs: int
    batch: int
    lr: float = 3e-3
    decay: float = 0.0
    seed: int = 0


RUN_LESSONS = Lessons(epochs=20, batch=128)
CHANGE_LESSONS = Lessons(epochs=100, batch=64, decay=5e-3)


def tilted(error: Tensor, quantile: float) -> Tensor:
    """The tilted loss of truth − prediction: least, on average, where the prediction is the quantile."""
    return torch.maximum(quantile * error, (quantile - 1) * error)


def learn_run(examples: Sequence[Run], lessons: Lessons = RUN_LESSONS, told: Told = lambda _: None) -> RunNetwork:
    """λ_run from moments of real trainings."""
    static, sequence, lengths = run_inputs([each.past for each in examples])
    truth = torch.full((len(examples), HORIZON), math.nan)
    for row, each in enumerate(examples):
        truth[row, : len(each.changes)] = torch.tensor(each.changes)
    with seeded(lessons.seed):
        network = RunNetwork()
        network.setting.fit(static)
        network.sequence.fit(sequence[torch.arange(sequence.shape[1]) < lengths[:, None]])
        network.changes.fit(truth[~truth.isnan()][:, None])
        _learn(network, (static, sequence, lengths), truth, lessons, told)
    return network


def learn_change(
    examples: Sequence[Change], lessons: Lessons = CHANGE_LESSONS, told: Told = lambda _: None
) -> ChangeNetwork:
    """λ_change from changes of real trainings."""
    inputs = change_inputs([(each.past, each.to) for each in examples])
    truth = torch.tensor([[each.change] for each in examples])
    with seeded(lessons.seed):
        network = ChangeNetwork()
        network.inputs.fit(inputs)
        network.changes.fit(truth)
        _learn(network, (inputs,), truth, lessons, told)
    return network


def _learn(
    network: RunNetwork | ChangeNetwork, inputs: tuple[Tensor, ...], truth: Tensor, lessons: Lessons, told: Told
) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=lessons.lr, weight_decay=lessons.decay)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, lessons.epochs)
    for epoch in range(1, lessons.epochs + 1):
        for at in torch.split(torch.randperm(len(truth)), lessons.batch):
            optimizer.zero_grad()
            told_changes = network(*(each[at] for each in inputs))
            _loss(told_changes, truth[at], network.changes.deviation).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        falling.step()
        told(epoch)
    network.requires_grad_(requires_grad=False)


def _loss(told: Tensor, truth: Tensor, unit: Tensor) -> Tensor:
    """The mean loss of the changes that are known, in units of the changes' deviation."""
    known, (low, high) = ~truth.isnan(), QUANTILES
    errors = (truth[..., None] - told[..., :3])[known] / unit
    loss = errors[:, 0] ** 2 + tilted(errors[:, 1], low) + tilted(errors[:, 2], high)
    if told.shape[-1] > 3:
        loss = loss + tilted((truth.cumsum(dim=1) - told[..., 3])[known] / unit[0], high)
    return loss.mean()
