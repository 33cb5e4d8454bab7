"""15 classes from CIFAR-10's ten, for a collection with as many classes as PACT's bronze nodes have.

The images of the first five classes are told apart by their brightness: those above the median of their class get a
label of their own. So the nodes have 10, 13 and 15 classes, as in Section VI-A of PACT.

    CIFAR10=FOLDER palmette curves collect --data benchmarks.pact.fifteen_classes:images \
        --model benchmarks.pact.fifteen_classes:network --batch 64 --lr 0.001 -o fifteen.jsonl
"""

from __future__ import annotations

import os
from functools import lru_cache

import torch
from torch import Tensor, nn

from palmette.zoo.data import load_data
from palmette.zoo.networks.vgg import vgg11small

SHAPE = (3, 32, 32)
SPLIT, CLASSES = 5, 15
FOLDER = "CIFAR10"
"""The variable that names the folder of the images."""


class Relabelled:
    """Images and their labels, as a map-style data set."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        self._inputs, self._labels = inputs, labels

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._inputs[index], int(self._labels[index])


def relabelled(inputs: Tensor, labels: Tensor) -> Tensor:
    """The labels of 15 classes: 10 + c for the brighter half of class c, for the first five."""
    brightness, found = inputs.flatten(1).mean(1), labels.clone()
    for label in range(SPLIT):
        own = labels == label
        if own.any():
            found[own & (brightness > brightness[own].median())] = 10 + label
    return found


@lru_cache(maxsize=2)
def images(train: bool) -> Relabelled:
    """CIFAR-10 in 15 classes."""
    folder = os.environ.get(FOLDER)
    if not folder:
        raise ValueError(f"set {FOLDER} to the folder of CIFAR-10's files")
    data = load_data(f"cifar10:{folder}", SHAPE)
    part = data.train if train else data.held_out
    inputs, labels = part.batch(range(len(part)))
    return Relabelled(inputs, relabelled(inputs, torch.as_tensor(labels)))


def network() -> nn.Module:
    """The small VGG-11 with 15 outputs."""
    module = vgg11small(SHAPE[1], CLASSES, SHAPE[0])
    module.input_shape = SHAPE  # type: ignore[assignment]
    return module
