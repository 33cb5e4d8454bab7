"""What Ctrl-C and a request to terminate do while something trains."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.runtime.training.loop import Training


@contextmanager
def restored_signals() -> Iterator[None]:
    """Restore the signal handlers when the run is over."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_on_signals(training: Training) -> None:
    """Let the first Ctrl-C end the run after its iteration; the second ends it at once."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        training.stop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
