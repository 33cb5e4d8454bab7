"""The folder of a run: one process at a time owns it, and a new run does not replace another one unasked.

The lock is one of the system (``flock``): it ends with its process, however that ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from palmette.errors import Argument, Fault, InputError, Message
from palmette.runtime.data.kept_samples import is_file_name
from palmette.spec.files import make_folder

_LOCK = ".lock"
_RECORD = "run.json"
_RESULTS = ("model.safetensors", "best.safetensors")
_WRITTEN = (
    *_RESULTS,
    "metrics.jsonl",
    "trace.jsonl",
    "checkpoints/best",
    "adapters/adapter_config.json",
    "adapters/adapter_model.safetensors",
)
# Some network file systems have no locks; a run there is as well guarded as it can be.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own a run's folder, which is made if it is not there.

    Raises:
        InputError: another process owns it, or there can be no such folder.
    """
    make_folder(folder)
    opened = _locked(folder)
    try:
        yield
    finally:
        os.close(opened)


def refuse_owned(folder: Path) -> None:
    """Refuse a folder that a running process owns.

    Raises:
        InputError: one does.
    """
    if (folder / _LOCK).exists():
        os.close(_locked(folder))


def _locked(folder: Path) -> int:
    try:
        opened = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(Fault("", _LOCK, f"cannot be written: {error.strerror}", str(folder))) from None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        expected = "another process is training in it; expected another one, or to wait for its end"
        raise InputError(Fault("", "the folder", expected, str(folder))) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            os.close(opened)
            raise InputError(Fault("", _LOCK, f"cannot be locked: {error.strerror}", str(folder))) from None
    return opened


def refuse_taken(folder: Path) -> None:
    """Refuse a folder that holds a run already, or files of somebody else that a run would replace.

    Raises:
        InputError: says how to continue the run, or to replace what is there.
    """
    if (folder / _RECORD).exists():
        resume = f" to replace it, or to continue it: palmette run --resume {folder}"
        expected = Message("it holds a run; expected another one, ", Argument("force"), resume)
        raise InputError(Fault("", "the folder", expected, str(folder)))
    others = [name for name in _WRITTEN if os.path.lexists(folder / name)]
    if others:
        expected = Message("a run would replace it; expected another folder, or ", Argument("force"), " to replace it")
        raise InputError([Fault("", name, expected, str(folder)) for name in others])


def written(folder: Path) -> list[Path]:
    """The files of a run that name its network: its record, and the weights that it has left."""
    return [folder / name for name in (_RECORD, *_RESULTS) if (folder / name).exists()]


def remove_results(folder: Path) -> None:
    """Remove the weights that an earlier run has left, so that none are taken for those of the next."""
    for name in _RESULTS:
        (folder / name).unlink(missing_ok=True)


def remove_samples(folder: Path) -> None:
    """Remove the samples that nodes have kept, and their folder unless there is something else in it."""
    for path in folder.glob("*"):
        if is_file_name(path.name):
            shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()
