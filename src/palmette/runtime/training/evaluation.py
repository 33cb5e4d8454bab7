"""Evaluates a network on held-out data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from palmette.runtime.options import Options
from palmette.zoo.data import DataSplit
from palmette.zoo.models import Network

BATCH = 256


@dataclass(frozen=True)
class Evaluation:
    """The fraction of samples classified correctly, and the mean loss."""

    accuracy: float
    loss: float


def evaluate(network: Network, part: DataSplit, options: Options) -> Evaluation:
    """Evaluate a network on held-out data."""
    whole = nn.Sequential(*[layer.module for layer in network.layers])
    dtype: torch.dtype = getattr(torch, options.dtype)
    whole.to(dtype).eval()
    taken = dtype if network.dtype.is_floating_point else network.dtype  # as in the workers
    right, lost = 0, 0.0
    with torch.no_grad():
        for begin in range(0, len(part), BATCH):
            inputs, labels = part.batch(range(begin, min(begin + BATCH, len(part))))
            outputs = whole(inputs.to(taken))
            right += int((outputs.argmax(1) == labels).sum())
            lost += float(nn.functional.cross_entropy(outputs, labels, reduction="sum"))
    whole.train()
    return Evaluation(right / len(part), lost / len(part))
