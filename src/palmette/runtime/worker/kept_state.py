"""What workers leave on the disk when their engine is gone, for a run that is resumed.

A worker has the state after the last iteration that all have completed, and perhaps after a later one; which of them
all have is seen when what all have left is put together:

    kept/000120/phone-….{optimizer,weights}.safetensors
    kept/000121/phone-….{optimizer,weights}.safetensors
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from palmette.runtime.data.kept_samples import file_name
from palmette.runtime.tensor_file import write_tensors
from palmette.runtime.worker.setup import StateDicts, unshared
from palmette.spec.durable import make_folders, write_file

_WEIGHTS, _OPTIMIZER = ".weights.safetensors", ".optimizer.safetensors"


def write_kept(folder: Path, node: str, states: Mapping[int, StateDicts]) -> None:
    """Write a node's states, by how many iterations were done; weights last, so that what has them is whole.

    Raises:
        OSError, SafetensorError: they cannot be written.
    """
    for iterations, (weights, optimizer) in states.items():
        target = folder / f"{iterations:06d}"
        make_folders(target)
        for tensors, ending in ((optimizer, _OPTIMIZER), (weights, _WEIGHTS)):
            _write(tensors, target / f"{file_name(node)}{ending}")


def _write(tensors: Mapping[str, Tensor], path: Path) -> None:
    write_file(path, lambda draft: write_tensors(unshared(tensors), draft))


def read_kept(folder: Path, iterations: int, patience_s: float) -> StateDicts:
    """All nodes' states after so many iterations together; those that are older than ``patience_s`` do not count.

    Raises:
        OSError, SafetensorError: they cannot be read.
    """
    weights: dict[str, Tensor] = {}
    optimizer: dict[str, Tensor] = {}
    for path in folder.glob(f"{iterations:06d}/*{_WEIGHTS}"):
        if time.time() - path.stat().st_mtime <= patience_s:
            weights |= load_file(path)
            optimizer |= load_file(path.with_name(path.name.removesuffix(_WEIGHTS) + _OPTIMIZER))
    return weights, optimizer


def write_kept_bytes(folder: Path, node: str, iterations: int, weights: bytes, optimizer: bytes) -> None:
    """Write a node's state after so many iterations, in the safetensors format.

    Raises:
        OSError: it cannot be written.
    """
    target = folder / f"{iterations:06d}"
    make_folders(target)
    for content, ending in ((optimizer, _OPTIMIZER), (weights, _WEIGHTS)):
        write_file(target / f"{file_name(node)}{ending}", partial(_write_bytes, content))


def _write_bytes(content: bytes, draft: Path) -> None:
    draft.write_bytes(content)


def clear_kept(folder: Path) -> None:
    """Remove all that workers have left."""
    shutil.rmtree(folder, ignore_errors=True)
