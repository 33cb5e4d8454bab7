"""The data of each set of nodes, as in Section VI-A of PACT on a smaller scale.

The gold set owns many samples of some classes, silver fewer of more, bronze the fewest of all classes. PACT has 10, 13
and 15 classes and 45,000, 5,000 and 1,500 samples; here the classes have the same proportions, and the numbers of
samples differ less, so that bronze still has some of each class. No sample belongs to two sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palmette.errors import Fault, InputError
from palmette.zoo.data import DataSet, DataSplit
from palmette.zoo.models import seeded

CLASSES = {"gold": 10 / 15, "silver": 13 / 15, "bronze": 1.0}
SHARES = {"gold": 0.5, "silver": 0.15, "bronze": 0.05}
MAX_SAMPLES = 16_000  # of the data that are distributed; more would only take longer


@dataclass(frozen=True, eq=False)
class NodeSetData:
    """The samples of a set of nodes, in memory."""

    inputs: Tensor
    labels: Tensor
    classes: int


def labels_of(part: DataSplit) -> Tensor:
    """The labels of all samples."""
    found: Tensor = part.labels(range(len(part)))
    return found


def split_data(data: DataSet, labels: Tensor, seed: int) -> dict[str, NodeSetData]:
    """The data of each set, drawn by the seed, class by class.

    Raises:
        InputError: there are too few samples or classes to distribute.
    """
    known = sorted(set(labels.tolist()))
    samples = min(len(labels), MAX_SAMPLES)
    with seeded(seed):
        order = torch.randperm(len(labels))
    left = {label: order[labels[order] == label].tolist() for label in known}
    found = {}
    for name, share in SHARES.items():
        classes = known[: max(2, round(len(known) * CLASSES[name]))]
        each = max(1, round(samples * share / len(classes)))
        taken = [left[label].pop() for label in classes for _ in range(min(each, len(left[label])))]
        if len(classes) < 2 or len(taken) < 2 * len(classes):
            raise InputError(
                Fault("data", data.name, f"has {len(labels)} samples of {len(known)} classes; too few to distribute")
            )
        found[name] = _shard(data.train, taken, len(classes))
    return found


def _shard(part: DataSplit, numbers: Sequence[int], classes: int) -> NodeSetData:
    inputs, labels = part.batch(numbers)
    if inputs.dim() == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return NodeSetData(inputs, labels, classes)
