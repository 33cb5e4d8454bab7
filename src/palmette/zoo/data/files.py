"""Data that lies in files: how their names are written, ``FILE?option=value&…``, and errors that name the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from palmette.errors import Fault, InputError, expected_name


def file_error(file: Path | str, value: object, expected: str) -> InputError:
    """An error about what stands in a file."""
    return InputError(Fault("data", value, expected, file=str(file)))


def split_options(name: str, argument: str, known: Sequence[str]) -> tuple[Path, dict[str, str]]:
    """The file behind a name's colon, and the options after its question mark; ``%26`` in a value is an &.

    Raises:
        InputError: with every part that is wrong.
    """
    path, mark, query = argument.partition("?")
    faults, options = [], {}
    for part in query.split("&") if mark else []:
        key, _, value = part.partition("=")
        if key not in known:
            faults.append(Fault("data", name, f"{key or repr(key)}: {expected_name(key, 'option', known)}"))
        elif not value:
            faults.append(Fault("data", name, f"{key}: expected a value, as in {key}=…"))
        elif key in options:
            faults.append(Fault("data", name, f"{key}: expected only once"))
        else:
            options[key] = unquote(value)
    if not path:
        faults.append(Fault("data", name, "expected a file behind the colon"))
    if faults:
        raise InputError(faults)
    return require_file(path), options


def require_file(path: str) -> Path:
    """The file at a path, where ~ is the user's home.

    Raises:
        InputError: there is none.
    """
    return _required(path, "file")


def require_folder(path: str) -> Path:
    """The folder at a path, where ~ is the user's home.

    Raises:
        InputError: there is none.
    """
    return _required(path, "folder")


def _required(path: str, kind: str) -> Path:
    try:
        found = Path(path).expanduser()
        there = "folder" if found.is_dir() else "file" if found.is_file() else None
    except (OSError, RuntimeError) as error:  # a name that is too long, a home that is not known
        raise file_error(path, f"no such {kind}", f"{error}; expected a {kind}") from None
    if there != kind:
        raise file_error(path, f"a {there}" if there else f"no such {kind}", f"expected a {kind}")
    return found
