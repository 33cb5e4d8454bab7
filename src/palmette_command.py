"""What the command ``palmette`` calls first: a module of its own, so that Ctrl-C during all imports is one line.

SIGTERM (a service manager, ``timeout``, ``palmette stop``) is handled as Ctrl-C is, so that it leaves nothing behind.

A KeyboardInterrupt that is raised while a package is imported may be lost there: some catch everything, and C++ code
drops it, so that the command would go on. Nothing has begun at that time, so the process ends at once instead.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130  # as shells have it
_USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def main() -> None:
    """Run the command line and exit."""
    try:
        for number, usual in _USUAL.items():
            if signal.getsignal(number) is usual:  # it may be ignored, as under nohup
                signal.signal(number, end_in_an_import)
        from palmette.cli import main as run
    except KeyboardInterrupt:
        _say()
        sys.exit(INTERRUPTED)
    run()


def end_in_an_import(number: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C: as Python does, but end where something is imported and no process has been started yet.

    Raises:
        KeyboardInterrupt: nothing is being imported.
    """
    if _imports(frame) and not _has_children():
        _say()
        os._exit(INTERRUPTED)
    signal.default_int_handler(number, frame)


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _has_children() -> bool:
    """Whether processes were started that this one has to end in order."""
    started = sys.modules.get("multiprocessing.process")
    return started is not None and bool(started.active_children())


def _say() -> None:
    """Say so in a line of its own; where a bar was drawn, it is wiped out, and the cursor that it hid is back."""
    stderr = sys.__stderr__
    if stderr is not None:
        clean = "\r\x1b[2K\x1b[?25h" if stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" else ""
        print(f"{clean}palmette: interrupted", file=stderr, flush=True)
