"""Samples that runs have left on a machine of others, in its folder for temporary files.

    palmette-samples-RUN/NODE/OWNER      RUN stands for the run's folder on the machine of its engine

They are deleted when the run ends. Until then it may be continued; if it never is, they are deleted when the node works
for another run, or starts again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from palmette.runtime.data.kept_samples import file_name

_PREFIX = "palmette-samples-"


def run_folder(base: Path, run: str) -> Path:
    """The folder for the samples that nodes keep in a run, on a machine that is not its engine's."""
    return base / f"{_PREFIX}{run}"


def delete_left(base: Path, node: str, but: Path | None = None) -> None:
    """Delete what a node has kept in all runs, except in one folder, and in those that a worker is using."""
    for folder in base.glob(f"{_PREFIX}*/{file_name(node)}"):
        if folder != but and not _is_used(folder):
            delete_folder(folder)


def ends_with_run(folder: Path) -> bool:
    """Whether a node's folder of samples is in a run's, not in one that a person has named."""
    return folder.parent.name.startswith(_PREFIX)


def delete_others(folder: Path, node: str) -> None:
    """Delete what a node has kept in other runs, if its folder is in a run's."""
    if ends_with_run(folder):
        delete_left(folder.parent.parent, node, but=folder)


def delete_folder(folder: Path) -> None:
    """Delete a node's samples of a run, and the run's folder if no other node has any."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def _is_used(folder: Path) -> bool:
    """Whether a worker has locked a file of a folder; what is somebody else's is left alone."""
    try:
        return any(_is_locked(path) for path in folder.iterdir())
    except OSError:
        return True


def _is_locked(path: Path) -> bool:
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False
