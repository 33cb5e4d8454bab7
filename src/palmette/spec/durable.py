"""Files that are there after a power cut: what was reported as saved is on the disk, whole.

A system keeps what was written in memory for a while, and may put names on the disk before contents. So contents are
flushed first, then renamed into place, then the folder is flushed, which holds the name; only after that may a
predecessor be removed:

    draft ──▶ flush the file ──▶ rename to its name ──▶ flush the folder
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path


def flush(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk.

    Raises:
        OSError: it cannot be written there.
    """
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # what cannot be flushed, such as a folder of some network file systems
            raise
    finally:
        os.close(opened)


def write_file(target: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file under another name, then put it in the place of ``target``: whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        write(draft)
        flush(draft)
        draft.replace(target)
        flush(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def place_folder(draft: Path, target: Path) -> None:
    """Give a folder of files its name, once everything in it is on the disk.

    Raises:
        OSError: it cannot be written, or the name is taken.
    """
    for path in (*draft.iterdir(), draft):
        flush(path)
    draft.rename(target)
    flush(target.parent)


def point(link: Path, target: str) -> None:
    """Let a symbolic link name something else; at any moment it names one of the two.

    Raises:
        OSError: it cannot be written.
    """
    draft = link.with_name(f".{link.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)
    flush(link.parent)


def make_folders(path: Path) -> None:
    """Make a folder and those above it, where they are not there.

    Raises:
        OSError: there can be no such folder.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        flush(each.parent)
