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
from pathlib import Path

# A socket's path may have 107 bytes on Linux; the longest below the root is /pymp-12345678/listener-12345678.
LONGEST_ROOT = 75
USUAL_ROOT = "/tmp"  # noqa: S108  (folders in it are made by mkdtemp)
_PREFIX, _OWNER = "palmette-", ".owner"


def short_root() -> str:
    """The folder for temporary files, or /tmp where its path is too long for sockets."""
    asked = tempfile.gettempdir()
    return asked if len(os.fsencode(asked)) <= LONGEST_ROOT else USUAL_ROOT


class SocketFolder(tempfile.TemporaryDirectory[str]):
    """A new folder, deleted by its ``cleanup``, or when the next one is made after this process was killed."""

    def __init__(self) -> None:
        super().__init__(prefix=_PREFIX, dir=short_root())
        draft = Path(self.name, f"{_OWNER}-draft")
        self._owner = draft.open("w")
        fcntl.flock(self._owner, fcntl.LOCK_EX)
        draft.rename(Path(self.name, _OWNER))  # only now may others look whether it is locked

    def cleanup(self) -> None:
        """Delete it."""
        self._owner.close()
        super().cleanup()


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
