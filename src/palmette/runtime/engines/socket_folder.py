"""Temporary folders for the processes of a run, with paths short enough for sockets in them.

A process that is killed leaves its folder behind. So each holds a lock of the system on a file in its own, and whoever
makes another removes those whose locks nobody holds any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO

# A socket's path may have 107 bytes on Linux; the longest below the root is
# /palmette-12345678/pymp-12345678/listener-12345678.
LONGEST_ROOT = 57
USUAL_ROOT = "/tmp"  # noqa: S108  (folders in it are made by mkdtemp)
_PREFIX, _OWNER = "palmette-", ".owner"
# When a process ends, after multiprocessing has removed its own folder, which may be in one of these.
_LAST = -101


def short_root() -> str:
    """The folder for temporary files, or /tmp where its path is too long for sockets."""
    asked = tempfile.gettempdir()
    return asked if len(os.fsencode(asked)) <= LONGEST_ROOT else USUAL_ROOT


class SocketFolder:
    """A new folder, deleted by its ``cleanup``, when this process ends, or when the next is made after it was killed.

    A process that this one has forked leaves it alone.
    """

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix=_PREFIX, dir=short_root())
        draft = Path(self.name, f"{_OWNER}-draft")
        owner = draft.open("w")
        fcntl.flock(owner, fcntl.LOCK_EX)
        draft.rename(Path(self.name, _OWNER))  # only now may others look whether it is locked
        self.cleanup = Finalize(self, _delete, (self.name, owner), exitpriority=_LAST)

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _delete(folder: str, owner: IO[str]) -> None:
    with owner:  # locked until it is gone
        shutil.rmtree(folder)


def socket_folder() -> SocketFolder:
    """A new folder, deleted by its ``cleanup``; what processes that were killed have left goes, too."""
    for path in Path(short_root()).glob(f"{_PREFIX}*/{_OWNER}"):
        with suppress(OSError):  # another process removes it at the same time
            if path.parent.lstat().st_uid == os.getuid():
                _remove_abandoned(path)
    return SocketFolder()


def _remove_abandoned(owner: Path) -> None:
    with owner.open("r+") as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(owner.parent)
