"""Evaluates a network on held-out data: here, or where the data lives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from palmette.runtime.held_out import LOSS, HeldOutSums, held_out_sums, together
from palmette.runtime.options import Options
from palmette.zoo.data import DataSplit
from palmette.zoo.models import Network
from palmette.zoo.recipes.objective import TrainingObjective


@dataclass(frozen=True)
class Evaluation:
    """The mean loss, the fraction of samples classified correctly where there are classes, and the recipe's metrics.

    ``owners`` are the evaluations of those that own the data, by node, where it stays with them.
    """

    loss: float
    accuracy: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    samples: int = 0
    owners: Mapping[str, Evaluation] = field(default_factory=dict)

    def value(self, metric: str) -> float:
        """The loss, the accuracy, or a metric of the recipe, by its name."""
        known = {"loss": self.loss, **self.metrics} | ({} if self.accuracy is None else {"accuracy": self.accuracy})
        return known[metric]


def evaluate(network: Network, part: DataSplit, objective: TrainingObjective, options: Options) -> Evaluation:
    """Evaluate a network on held-out data."""
    return evaluation_of(held_out_sums(network, part, objective, getattr(torch, options.dtype)))


def evaluation_of(sums: HeldOutSums) -> Evaluation:
    """The means of some sums."""
    means = {name: total / divisor if divisor else math.nan for name, (total, divisor) in sums.totals.items()}
    loss = means.pop(LOSS)
    return Evaluation(loss, None if sums.right is None else sums.right / sums.samples, means, sums.samples)


def evaluation_of_owners(sums: Mapping[str, HeldOutSums]) -> Evaluation:
    """The means over all owners, with those of each."""
    whole = evaluation_of(together(sums.values()))
    owners = {node: evaluation_of(each) for node, each in sums.items()}
    return Evaluation(whole.loss, whole.accuracy, whole.metrics, whole.samples, owners)
