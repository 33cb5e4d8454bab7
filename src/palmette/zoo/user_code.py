"""An error in a user's own code, as one line that says where it was raised."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from palmette.zoo.capture.wrapper import describe_error

_OURS = Path(__file__).parents[1]
_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))


def user_error(error: BaseException) -> str:
    """An error, and the innermost line of the user's own code that it came through: ``ValueError: … (file.py:12)``."""
    return f"{describe_error(error)}{_line(error)}"


def _line(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f" ({_short(Path(error.filename))}:{error.lineno})"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_file() and not any(file.is_relative_to(each) for each in (_OURS, *_INSTALLED)):
            return f" ({_short(file)}:{frame.lineno})"
    return ""


def _short(file: Path) -> str:
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
