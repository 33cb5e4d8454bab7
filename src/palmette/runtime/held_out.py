"""A network on held-out data, as sums: what an owner of data reports of it, where the data itself stays.

Sums of several owners add up to those of all their data in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from palmette.zoo.capture import LayerChain
from palmette.zoo.casting import cast_floats
from palmette.zoo.data import DataSplit
from palmette.zoo.lengths import batch_cut_to_fit
from palmette.zoo.models import Network
from palmette.zoo.recipes.objective import TrainingObjective, like_outputs

LOSS = ""
"""Stands in place of a metric's name."""
BATCH = 256


@dataclass(frozen=True)
class HeldOutSums:
    """How many samples there are, how many are classified correctly, and the sums and divisors of loss and metrics."""

    samples: int
    right: int | None
    totals: Mapping[str, tuple[float, float]]


def is_plausible(sums: HeldOutSums) -> bool:
    """Whether somebody could have found such sums."""
    right = sums.right is None or 0 <= sums.right <= sums.samples
    return sums.samples > 0 and right and LOSS in sums.totals and all(each[1] > 0 for each in sums.totals.values())


def held_out_sums(
    network: Network, part: DataSplit, objective: TrainingObjective, dtype: torch.dtype, batch: int = BATCH
) -> HeldOutSums:
    """The sums of a network on held-out data, so many samples at a time."""
    whole = LayerChain(layer.module for layer in network.layers)
    cast_floats(whole, dtype).eval()
    objective = objective.to(torch.device("cpu"), dtype)
    right, totals = 0, dict[str, tuple[float, float]]()
    with torch.no_grad():
        for begin in range(0, len(part), batch):
            numbers = range(begin, min(begin + batch, len(part)))
            inputs, labels = batch_cut_to_fit(part, numbers) if network.varying else part.batch(numbers)
            outputs = whole(*network.cast(inputs, dtype))
            if objective.labels.classes is not None:
                right += int((outputs.argmax(1) == labels).sum())
            for name, function in {LOSS: objective.loss, **objective.metrics}.items():
                found = function(outputs, like_outputs(labels, outputs))
                total, divisor = totals.get(name, (0.0, 0.0))
                totals[name] = total + float(found.total), divisor + float(found.divisor)
    whole.train()
    return HeldOutSums(len(part), None if objective.labels.classes is None else right, totals)


def together(parts: Iterable[HeldOutSums]) -> HeldOutSums:
    """The sums of several parts, in their order."""
    samples, right, totals = 0, 0, dict[str, tuple[float, float]]()
    classes = True
    for part in parts:
        samples += part.samples
        classes, right = classes and part.right is not None, right + (part.right or 0)
        for name, (total, divisor) in part.totals.items():
            before = totals.get(name, (0.0, 0.0))
            totals[name] = before[0] + total, before[1] + divisor
    return HeldOutSums(samples, right if classes else None, totals)
