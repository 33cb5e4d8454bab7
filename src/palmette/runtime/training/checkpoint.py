"""What a run can resume from: weights, optimizer state and progress.

A checkpoint is a folder that is written atomically and is on the disk before an older one is removed. The last two are
kept, and the best one by accuracy, or by the metric of early stopping. Frozen weights are left out (``base_weights``),
unless the network becomes smaller. Checksums tell a damaged one from a whole one:

    checkpoints/000120/{model.safetensors, optimizer.safetensors, progress.json, SHA256SUMS}
    checkpoints/000120~         the one that 000120 replaces, until that is on the disk
    checkpoints/best → the folder of the best
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from palmette.errors import ArgumentFault, Fault, InputError, RunError
from palmette.runtime.tensor_file import write_tensors
from palmette.spec.durable import place_folder, point

_SUMS = "SHA256SUMS"
_MODEL, _OPTIMIZER, _PROGRESS = "model.safetensors", "optimizer.safetensors", "progress.json"
_FILES = (_SUMS, _PROGRESS, _MODEL, _OPTIMIZER)
_NAME = re.compile(r"(\d{6,})(~?)")
_KEPT = 2


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


def to_progress(written: Mapping[str, Any]) -> Progress:
    """The progress that was written as JSON.

    Raises:
        TypeError, AttributeError: it is something else.
    """
    lists: dict[str, Any] = {name: tuple(each) for name, each in written.items() if isinstance(each, list)}
    return Progress(**{**written, **lists})


@dataclass(frozen=True)
class Checkpoint:
    """The state of the whole network, by the names in the module's ``state_dict``."""

    progress: Progress
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]


@dataclass(frozen=True)
class LastCheckpoint:
    """The last checkpoint that is whole; ``damaged`` says of each later one that it is not, and why."""

    checkpoint: Checkpoint
    damaged: tuple[str, ...] = ()


def save(checkpoint: Checkpoint, folder: Path, *, best: bool) -> Path:
    """Write a checkpoint, and remove those that are neither the best nor one of the last two.

    Raises:
        RunError: it cannot be written.
    """
    target = folder / f"{checkpoint.progress.iteration:06d}"
    draft = folder / f".{target.name}"
    try:
        _remove(draft)
        draft.mkdir(exist_ok=True)
        write_tensors(checkpoint.weights, draft / _MODEL)
        write_tensors(checkpoint.optimizer, draft / _OPTIMIZER)
        (draft / _PROGRESS).write_text(json.dumps(asdict(checkpoint.progress)))
        (draft / _SUMS).write_text("".join(f"{_checksum(draft / name)}  {name}\n" for name in _FILES[1:]))
        if target.exists():
            replaced = target.with_name(f"{target.name}~")
            _remove(replaced)
            target.rename(replaced)
        place_folder(draft, target)
        if best:
            point(folder / "best", target.name)
        _forget(folder, target)
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            _remove(draft)
        raise RunError(f"{target}: the checkpoint cannot be written: {_why(error)}") from None
    return target


def is_saved(folder: Path, iteration: int) -> bool:
    """Whether there is a checkpoint of so many iterations."""
    return (folder / f"{iteration:06d}" / _PROGRESS).exists()


def is_any(folder: Path) -> bool:
    """Whether there is a checkpoint, whole or damaged."""
    return any(map(_holds_some, _own(folder)))


def clear(folder: Path) -> None:
    """Make the folder of checkpoints, and remove those of an earlier run, so that none is resumed from.

    Raises:
        RunError: that cannot be done.
    """
    try:
        folder.mkdir(exist_ok=True)
        (folder / "best").unlink(missing_ok=True)
        for path in _own(folder):
            _remove(path)
    except OSError as error:
        raise RunError(f"{folder}: the checkpoints of an earlier run cannot be removed: {_why(error)}") from None


def last(folder: Path) -> LastCheckpoint:
    """The last checkpoint of a run that is whole.

    Raises:
        InputError: there is none, or none can be read; names each of them.
    """
    damaged: list[Fault] = []
    found = sorted(filter(_holds_some, _own(folder)), key=_order, reverse=True)
    for place, path in enumerate(found):
        try:
            with_sums = any(_is_there(earlier / _SUMS) for earlier in found[place:])
            return LastCheckpoint(_read(path, with_sums=with_sums), tuple(map(str, damaged)))
        except InputError as error:
            damaged += error.faults
    raise InputError(damaged or ArgumentFault("resume", str(folder), "there is no checkpoint to resume from"))


def best(folder: Path) -> Checkpoint | None:
    """The best checkpoint of a run; None where it was never evaluated.

    Raises:
        InputError: it cannot be read.
    """
    path = folder / _pointed(folder / "best")
    return _read(path, with_sums=_is_there(path / _SUMS)) if _pointed(folder / "best") else None


def _read(path: Path, *, with_sums: bool) -> Checkpoint:
    """Read a checkpoint; only one of before there were checksums, which has no earlier one with them, has none."""
    try:
        _refuse_missing(path, _FILES if with_sums else _FILES[1:])
        if with_sums:
            _refuse_damaged(path)
        progress = to_progress(json.loads((path / _PROGRESS).read_text()))
        return Checkpoint(progress, load_file(path / _MODEL), load_file(path / _OPTIMIZER))
    except (OSError, SafetensorError, TypeError, ValueError, AttributeError) as error:
        expected = f"the checkpoint cannot be read: {_why(error)}"
        raise InputError(Fault("", path.name, expected, str(path.parent))) from None


def _refuse_missing(path: Path, names: Sequence[str]) -> None:
    """Refuse what cannot be read as a file; a pipe in its place would be waited for without end."""
    for name in names:
        if not (path / name).is_file():
            raise ValueError(f"{name} is {'no file' if _is_there(path / name) else 'missing'}")


def _is_there(path: Path) -> bool:
    """Whether there is something under this name, also a link to nothing."""
    return os.path.lexists(path)


def _refuse_damaged(path: Path) -> None:
    """Compare files with their checksums."""
    known = {name: found for found, _, name in (line.partition("  ") for line in _lines(path / _SUMS))}
    for name in _FILES[1:]:
        if known.get(name) != _checksum(path / name):
            raise ValueError(f"{name} is damaged: it differs from its checksum")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pointed(link: Path) -> str:
    return link.readlink().name if link.is_symlink() else ""


def _own(folder: Path) -> Iterator[Path]:
    """The folders of checkpoints; others may have put something beside them."""
    return (path for path in folder.glob("[0-9]*") if _NAME.fullmatch(path.name) and path.is_dir())


def _holds_some(path: Path) -> bool:
    """Whether there is a file of a checkpoint in a folder, and not only what others have put there."""
    return any(_is_there(path / name) for name in _FILES)


def _order(path: Path) -> tuple[int, bool]:
    found = _NAME.fullmatch(path.name)
    assert found is not None, "a checkpoint's name"
    return int(found[1]), not found[2]


def _forget(folder: Path, newest: Path) -> None:
    """Remove all but the best and the last two; what is later than the newest was damaged, and is trained again."""
    made = sorted((path for path in _own(folder) if path.name.isdecimal()), key=_order)
    known = [path for path in made if _order(path) <= _order(newest)]
    best = folder / _pointed(folder / "best")
    if best in made and best not in known:
        (folder / "best").unlink()
    keep = {*known[-_KEPT:], *(path for path in known if path == best)}
    for path in _own(folder):
        if path not in keep:
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a checkpoint, and its folder unless others have put something there."""
    for name in _FILES:
        if not (path / name).is_dir():
            (path / name).unlink(missing_ok=True)
    with suppress(OSError):
        path.rmdir()


def _why(error: Exception) -> str:
    return " ".join(((error.strerror if isinstance(error, OSError) else None) or str(error)).split())
