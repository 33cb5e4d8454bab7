"""A disk in a file: an ext4 image, mounted on a folder, that can be copied at any moment, as a power cut leaves it.

What the file system has not written to its disk yet is in memory only, so it is not in the copy.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE_BYTES = 512 * 2**20
_GONE_S = 60.0


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
        unmount(folder)


def unmount(folder: Path) -> None:
    """Unmount a disk, once nothing of it is in use any more.

    Weights of checkpoints are mapped into memory by runs that refer to themselves, and what was killed may need a
    moment on a busy machine to be gone.

    Raises:
        OSError: it stays in use; says by what.
    """
    until_s = time.monotonic() + _GONE_S
    while subprocess.run(["umount", str(folder)], check=False, capture_output=True).returncode:
        gc.collect()
        if time.monotonic() > until_s:
            by = ", ".join(_users(folder)) or "nobody known"
            raise OSError(f"{folder} is still in use after {_GONE_S:.0f} s, by {by}")
        time.sleep(0.2)


def _users(folder: Path) -> list[str]:
    """The processes that have files of a folder open or mapped, each with one of these files."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            files = [line.split()[-1] for line in (process / "maps").read_text().splitlines()]
            files += [str(each.readlink()) for each in (process / "fd").iterdir()]
        except OSError:
            continue  # it has ended, or is somebody else's
        found += [f"process {process.name}: {file}" for file in files if file.startswith(f"{folder}/")][:1]
    return found


def _call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
