"""The processes of a run are forked from a server that has imported what they need, and done nothing else."""

from __future__ import annotations

import multiprocessing
import tempfile
from multiprocessing.context import ForkServerContext
from multiprocessing.util import get_temp_dir

from palmette.runtime.engines.socket_folder import short_root


def forkserver_context() -> ForkServerContext:
    """The multiprocessing context of all processes of a run; they share one fork server and its imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["palmette.runtime.preload"])
    _find_folder()
    return context


def _find_folder() -> None:
    """Make multiprocessing create its folder, which it keeps, where the paths of its sockets are short enough."""
    before = tempfile.tempdir
    tempfile.tempdir = short_root()
    try:
        get_temp_dir()
    finally:
        tempfile.tempdir = before
