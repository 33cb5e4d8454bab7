"""What a run can resume from: weights, optimizer state and progress.

A checkpoint is a folder that is written atomically. The last one is kept, and the best one by accuracy, or
by the metric of early stopping. Frozen weights are left out (``base_weights``), unless the network becomes smaller.

    checkpoints/000120/{model.safetensors, optimizer.safetensors, progress.json}
    checkpoints/best → the folder of the best
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from palmette.errors import ArgumentFault, InputError, RunError


@dataclass(frozen=True)
class Progress:
    """How far a run has come: iterations in total and in the current phase, there also by tree if known.

    ``best`` is the best value of the metric that counts, ``stale_evaluations`` are those since. ``pruning`` is the
    fraction of the parameters that has been removed by now. ``lengths`` and ``phases`` are the segments of a run that
    has changed its plan: the phases as in a plan's file, and how many iterations each has. ``base`` is the checksum of
    the frozen weights that are left out, empty where none are.
    """

    iteration: int
    phase: int = 0
    phase_iteration: int = 0
    best: float | None = None
    stale_evaluations: int = 0
    wall_s: float = 0.0
    clock_s: float = 0.0
    time_s: float = 0.0
    energy_j: float | None = 0.0
    tree_steps: Sequence[int] = ()
    pruning: float = 0.0
    losses: Sequence[float] = ()
    lengths: Sequence[int] = ()
    phases: Sequence[Mapping[str, Any]] = ()
    base: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """The state of the whole network, by the names in the module's ``state_dict``."""

    progress: Progress
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]


def save(checkpoint: Checkpoint, folder: Path, *, best: bool) -> Path:
    """Write a checkpoint, and remove those that are neither the last nor the best.

    Raises:
        RunError: it cannot be written.
    """
    target = folder / f"{checkpoint.progress.iteration:06d}"
    draft = folder / f".{target.name}"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save_file(dict(checkpoint.weights), draft / "model.safetensors")
        save_file(dict(checkpoint.optimizer), draft / "optimizer.safetensors")
        (draft / "progress.json").write_text(json.dumps(asdict(checkpoint.progress)))
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
        if best:
            _point(folder / "best", target)
        _forget(folder, keep={target.name, _pointed(folder / "best")})
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise RunError(f"{target}: the checkpoint cannot be written: {_why(error)}") from None
    return target


def clear(folder: Path) -> None:
    """Remove the checkpoints of an earlier run, so that none is resumed from.

    Raises:
        RunError: they cannot be removed.
    """
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise RunError(f"{folder}: the checkpoints of an earlier run cannot be removed: {_why(error)}") from None


def last(folder: Path) -> Checkpoint:
    """The last checkpoint of a run.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    found = {int(path.name): path for path in folder.glob("[0-9]*") if path.name.isdecimal()}
    if not found:
        raise InputError(ArgumentFault("resume", str(folder), "there is no checkpoint to resume from"))
    return _read(found[max(found)])


def best(folder: Path) -> Checkpoint | None:
    """The best checkpoint of a run; None where it was never evaluated.

    Raises:
        InputError: it cannot be read.
    """
    return _read(folder / _pointed(folder / "best")) if _pointed(folder / "best") else None


def _read(path: Path) -> Checkpoint:
    try:
        written: dict[str, Any] = json.loads((path / "progress.json").read_text())
        lists: dict[str, Any] = {name: tuple(each) for name, each in written.items() if isinstance(each, list)}
        progress = Progress(**{**written, **lists})
        return Checkpoint(progress, load_file(path / "model.safetensors"), load_file(path / "optimizer.safetensors"))
    except (OSError, SafetensorError, TypeError, ValueError, AttributeError) as error:
        raise InputError(ArgumentFault("resume", str(path), f"the checkpoint cannot be read: {_why(error)}")) from None


def _point(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)


def _pointed(link: Path) -> str:
    return link.readlink().name if link.is_symlink() else ""


def _forget(folder: Path, keep: set[str]) -> None:
    for path in folder.glob("[0-9]*"):
        if path.name not in keep:
            shutil.rmtree(path, ignore_errors=True)


def _why(error: Exception) -> str:
    return " ".join(((error.strerror if isinstance(error, OSError) else None) or str(error)).split())
