"""Python objects named on the command line: ``package.module:callable``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palmette.errors import Fault, InputError, expected_name
from palmette.zoo.user_code import raised_at, user_error


def import_callable(name: str, field: str) -> Callable[..., Any]:
    """The callable that ``package.module:callable`` names, also from the current folder.

    ``field`` is what the name stands for, in errors: e.g. ``data`` or ``model``.

    Raises:
        InputError: there is no such module or callable, or importing it fails.
    """
    found = import_object(name, field)
    if not callable(found):
        raise InputError(Fault(field, name, f"is a {type(found).__name__}; expected a callable"))
    return found  # type: ignore[no-any-return]


def import_object(name: str, field: str, kind: str = "callable", like: type = Callable) -> Any:  # type: ignore[assignment]
    """What ``package.module:name`` names, also from the current folder.

    ``kind`` is what errors call it; they suggest names of objects that are ``like`` it.

    Raises:
        InputError: there is no such module or name, or importing it fails.
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise InputError(Fault(field, name, f"expected package.module:{kind}"))
    module = _module(name, module_name, field)
    found = getattr(module, attribute, None)
    if found is None:
        public = [word for word, value in vars(module).items() if isinstance(value, like) and word[0] != "_"]
        raise InputError(Fault(field, name, expected_name(attribute, f"{kind} in {module_name}", public)))
    return found


def _module(name: str, module_name: str, field: str) -> Any:
    # A console script does not search the current folder; appended, so that it hides nothing installed.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = f"no module {error.name}; expected one that is installed or in the current folder{raised_at(error)}"
        raise InputError(Fault(field, name, missing)) from error
    except Exception as error:
        failed = f"importing it failed: {user_error(error)}"
        raise InputError(Fault(field, name, failed)) from error
