"""What a worker tells of an error that ends it: one line, and whether the error is its own."""

from __future__ import annotations

import os
import traceback

from palmette.errors import PalmetteError
from palmette.runtime.control import Failed
from palmette.runtime.transport import Lost, Silent

_OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "Cannot allocate memory", "out of memory")


def failure(error: BaseException) -> Failed:
    """What a worker tells of an error; with PALMETTE_DEBUG set, where it happened goes to stderr."""
    if os.environ.get("PALMETTE_DEBUG"):
        traceback.print_exception(error)
    peer = error.peer if isinstance(error, Lost) else None
    return Failed(_reason(error), isinstance(error, Lost) and not isinstance(error, Silent), peer)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, PalmetteError):
        return text
    if isinstance(error, MemoryError) or any(words in text for words in _OUT_OF_MEMORY):
        return f"out of memory: {text}" if text else "out of memory"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
