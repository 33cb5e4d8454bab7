"""How the processes of a run come to be: forked from one that has imported what they need, and nothing else."""

from __future__ import annotations

import multiprocessing
import tempfile
from multiprocessing.context import ForkServerContext
from multiprocessing.util import get_temp_dir

from palmette.runtime.engines.socket_folder import short_root


def forking() -> ForkServerContext:
    """The context for all processes of a run; whoever starts the first one, the rest will find it warm."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["palmette.runtime.engines.preload"])
    _find_folder()
    return context


def _find_folder() -> None:
    """Let multiprocessing make its folder, which it keeps, where its sockets' paths are short enough."""
    before = tempfile.tempdir
    tempfile.tempdir = short_root()
    try:
        get_temp_dir()
    finally:
        tempfile.tempdir = before
