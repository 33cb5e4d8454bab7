"""Evaluates a network on held-out data."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from palmette.runtime.options import Options
from palmette.zoo.capture import LayerChain
from palmette.zoo.casting import cast_floats
from palmette.zoo.data import DataSplit
from palmette.zoo.lengths import batch_cut_to_fit
from palmette.zoo.models import Network
from palmette.zoo.recipes.loss import LossTotal
from palmette.zoo.recipes.objective import TrainingObjective, like_outputs

BATCH = 256
_LOSS = ""


@dataclass(frozen=True)
class Evaluation:
    """The mean loss, the fraction of samples classified correctly where there are classes, and the recipe's metrics."""

    loss: float
    accuracy: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def value(self, metric: str) -> float:
        """The loss, the accuracy, or a metric of the recipe, by its name."""
        known = {"loss": self.loss, **self.metrics} | ({} if self.accuracy is None else {"accuracy": self.accuracy})
        return known[metric]


def evaluate(network: Network, part: DataSplit, objective: TrainingObjective, options: Options) -> Evaluation:
    """Evaluate a network on held-out data."""
    whole = LayerChain(layer.module for layer in network.layers)
    dtype: torch.dtype = getattr(torch, options.dtype)
    cast_floats(whole, dtype).eval()
    objective = objective.to(torch.device("cpu"), dtype)
    right, means = 0, defaultdict[str, _Mean](_Mean)
    with torch.no_grad():
        for begin in range(0, len(part), BATCH):
            numbers = range(begin, min(begin + BATCH, len(part)))
            inputs, labels = batch_cut_to_fit(part, numbers) if network.varying else part.batch(numbers)
            outputs = whole(*network.cast(inputs, dtype))
            if objective.labels.classes is not None:
                right += int((outputs.argmax(1) == labels).sum())
            for name, function in {_LOSS: objective.loss, **objective.metrics}.items():
                means[name].add(function(outputs, like_outputs(labels, outputs)))
    whole.train()
    loss = means.pop(_LOSS).value
    accuracy = None if objective.labels.classes is None else right / len(part)
    return Evaluation(loss, accuracy, {name: mean.value for name, mean in means.items()})


@dataclass
class _Mean:
    """A mean over batches."""

    total: float = 0.0
    divisor: float = 0.0

    def add(self, found: LossTotal) -> None:
        self.total += float(found.total)
        self.divisor += float(found.divisor)

    @property
    def value(self) -> float:
        return self.total / self.divisor if self.divisor else math.nan
