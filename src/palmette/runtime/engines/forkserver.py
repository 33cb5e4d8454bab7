"""The processes of a run are forked from a server that has imported what they need, and done nothing else."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from functools import cache
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.util import get_temp_dir

from palmette.runtime.engines.socket_folder import SocketFolder, socket_folder


def forkserver_context() -> ForkServerContext:
    """The multiprocessing context of all processes of a run; they share one fork server and its imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["palmette.runtime.preload"])
    _keep_folder()
    _start_server()
    return context


def _start_server() -> None:
    """Start the server, if it is not there, deaf to Ctrl-C: it would print a traceback while it imports."""
    resource_tracker.ensure_running()  # else the server starts it, which unblocks Ctrl-C
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@cache
def _keep_folder() -> SocketFolder:
    """Make multiprocessing create its folder, which it keeps, in one that goes even if this process is killed."""
    made, before = socket_folder(), tempfile.tempdir
    tempfile.tempdir = made.name
    try:
        get_temp_dir()
    finally:
        tempfile.tempdir = before
    return made
