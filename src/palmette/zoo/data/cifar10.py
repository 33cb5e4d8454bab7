"""CIFAR-10: 60,000 images of 3×32×32 in ten classes."""

from __future__ import annotations

from pathlib import Path

import torch

from palmette.zoo.data.base import DataSet, Shape
from palmette.zoo.data.cifar10_files import CLASSES, SHAPE, read_cifar10
from palmette.zoo.data.images import ImageSplit, normalisation, require_images

# Channel means and deviations of the 50,000 training images, in units of full brightness.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)


def load(name: str, folder: str, shape: Shape) -> DataSet:
    """The data set in a folder, the current one by default.

    Raises:
        InputError: the files or the network's shape are not usable.
    """
    require_images(name, shape, channels=SHAPE[0])
    scale, shift = normalisation(255, torch.tensor(MEAN), torch.tensor(DEVIATION))
    train, held_out = (
        ImageSplit(torch.tensor(batch.pixels), torch.tensor(batch.labels), shape, scale, shift)
        for batch in read_cifar10(Path(folder or ".").expanduser())
    )
    return DataSet(name, train, held_out, classes=CLASSES)
