"""Handwritten digits, shipped with scikit-learn: 1797 images of 8×8 in grey."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from palmette.zoo.data.base import DataSet, Shape
from palmette.zoo.data.images import ImageSplit, normalisation, require_images

BRIGHTEST = 16
# The digits come writer by writer: the last 297 are mostly in hands that the first 1500 do not show.
TRAIN_SAMPLES = 1500


def load(name: str, _: str, shape: Shape) -> DataSet:
    """The digits for a network that takes images of ``shape``."""
    require_images(name, shape, channels=1)
    images, labels = read_digits()
    pixels = torch.from_numpy(images.astype(np.uint8)).reshape(-1, 1, 8, 8)
    deviation, mean = torch.std_mean(pixels[:TRAIN_SAMPLES] / BRIGHTEST)
    scale, shift = normalisation(BRIGHTEST, mean, deviation)
    targets = torch.from_numpy(labels.astype(np.int64))
    train = ImageSplit(pixels[:TRAIN_SAMPLES], targets[:TRAIN_SAMPLES], shape, scale, shift)
    held_out = ImageSplit(pixels[TRAIN_SAMPLES:], targets[TRAIN_SAMPLES:], shape, scale, shift)
    return DataSet(name, train, held_out, classes=10)


def read_digits() -> tuple[NDArray[Any], NDArray[Any]]:
    """Pixels and labels from scikit-learn's own file: importing the package costs every worker a second and 80 MB."""
    found = importlib.util.find_spec("sklearn")
    folder = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    try:
        with gzip.open(folder / "datasets" / "data" / "digits.csv.gz", "rt", encoding="utf-8") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
        return table[:, :-1], table[:, -1]
    except OSError:  # another version may keep it elsewhere
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        return images, labels
