"""Temporary folders for the processes of a run, with paths short enough for sockets in them."""

from __future__ import annotations

import os
import tempfile

# A socket's path may have 107 bytes on Linux; the longest below the root is /pymp-12345678/listener-12345678.
LONGEST_ROOT = 75
USUAL_ROOT = "/tmp"  # noqa: S108  (folders in it are made by mkdtemp)


def short_root() -> str:
    """The folder for temporary files, or /tmp where its path is too long for sockets."""
    asked = tempfile.gettempdir()
    return asked if len(os.fsencode(asked)) <= LONGEST_ROOT else USUAL_ROOT


def socket_folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder, deleted by its ``cleanup``."""
    return tempfile.TemporaryDirectory(prefix="palmette-", dir=short_root())
