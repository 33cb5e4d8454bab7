"""A disk in a file: an ext4 image, mounted on a folder, that can be copied at any moment, as a power cut leaves it.

What the file system has not written to its disk yet is in memory only, so it is not in the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE_BYTES = 512 * 2**20


def why_not() -> str | None:
    """Why no image can be mounted here; None where one can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "mounting an image needs root on Linux"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount") if shutil.which(tool) is None]
    if missing:
        return f"needs {' and '.join(missing)}"
    return None if Path("/dev/loop-control").exists() else "there are no loop devices"


def make_image(path: Path) -> None:
    """Make an empty disk."""
    with path.open("wb") as file:
        file.truncate(_SIZE_BYTES)
    _call("mkfs.ext4", "-q", str(path))


def copy_image(path: Path, copy: Path) -> None:
    """Copy a disk as it is at this moment."""
    _call("cp", "--sparse=always", str(path), str(copy))


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """The files of a disk, in a folder."""
    folder.mkdir(exist_ok=True)
    _call("mount", "-o", "loop", str(image), str(folder))
    try:
        yield folder
    finally:
        _call("umount", str(folder))


def _call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
