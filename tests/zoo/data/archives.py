"""A tiny CIFAR-10 in the layout of the official archive."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from palmette.zoo.data.cifar10_files import FOLDER, TEST_FILE, TRAIN_FILES


def content(seed: int, images: int = 4) -> dict[bytes, Any]:
    """What one file of the archive holds."""
    random = np.random.default_rng(seed)
    return {
        b"batch_label": b"a batch",
        b"labels": random.integers(0, 10, images).tolist(),
        b"data": random.integers(0, 256, (images, 3072), dtype=np.uint8),
    }


def write_archive(parent: Path, protocol: int = 2) -> Path:
    """The folder ``cifar-10-batches-py`` under ``parent``, unpacked: 20 training and 4 test images."""
    folder = parent / FOLDER
    folder.mkdir()
    for seed, name in enumerate([*TRAIN_FILES, TEST_FILE]):
        (folder / name).write_bytes(pickle.dumps(content(seed), protocol=protocol))
    return folder
