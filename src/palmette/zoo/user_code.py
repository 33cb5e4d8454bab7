"""An error in a user's own code, as one line that says where it was raised, or where what is wrong is defined."""

from __future__ import annotations

import inspect
import re
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from palmette.errors import Fault, InputError
from palmette.zoo.capture.wrapper import describe_error

_OURS = Path(__file__).parents[1]
_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))
_NAMES_LINE = re.compile(r"\(\S+:\d+\)$")


def user_error(error: BaseException) -> str:
    """An error, and the innermost line of the user's own code that it came through: ``ValueError: … (file.py:12)``."""
    return f"{describe_error(error)}{raised_at(error)}"


@contextmanager
def located(found: Any, otherwise: str = "") -> Iterator[None]:
    """Let faults say in which line a user's function or object is defined, or another, where they name none yet."""
    try:
        yield
    except InputError as error:
        where = _definition(found) or otherwise
        raise InputError(at_line(each, where) for each in error.faults) from error


def at_line(fault: Fault, where: str) -> Fault:
    """A fault that says where what is wrong stands, unless it names a line already."""
    told = not where or _NAMES_LINE.search(fault.expected)
    return fault if told else replace(fault, expected=fault.expected + where)


def calling_line() -> str:
    """The innermost line of the user's own code that is being executed: `` (file.py:12)``; empty where none is."""
    called = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None))
    return next((_place(file, line) for file, line in called if _is_users(Path(file))), "")


def _definition(found: Any) -> str:
    """Where a function, or what an object of a user's own class does, is defined: `` (file.py:12)``."""
    if isinstance(found, tuple) and found:
        found = found[0]
    found = found.func if isinstance(found, partial) else found
    kind = found if inspect.isclass(found) else type(found)
    of_class = (getattr(kind, name, None) for name in ("__getitem__", "forward", "__call__"))
    code = next((each.__code__ for each in (found, *of_class) if inspect.isfunction(each)), None)
    return (
        "" if code is None or not _is_users(Path(code.co_filename)) else _place(code.co_filename, code.co_firstlineno)
    )


def _is_users(file: Path) -> bool:
    return file.is_file() and not any(file.is_relative_to(each) for each in (_OURS, *_INSTALLED))


def _place(file: str, line: int | None) -> str:
    return f" ({_short(Path(file))}:{line})"


def raised_at(error: BaseException) -> str:
    """The innermost line of the user's own code that an error came through: `` (file.py:12)``; empty if none."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return _place(error.filename, error.lineno)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_users(Path(frame.filename)):
            return _place(frame.filename, frame.lineno)
    return ""


def _short(file: Path) -> str:
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
