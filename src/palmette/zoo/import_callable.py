"""Python objects named on the command line: ``package.module:callable``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palmette.errors import Fault, InputError, expected_name


def import_callable(name: str, field: str) -> Callable[..., Any]:
    """The callable that ``package.module:callable`` names, also from the current folder.

    ``field`` is what the name stands for, in errors: e.g. ``data`` or ``model``.

    Raises:
        InputError: there is no such module or callable, or importing it fails.
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise InputError(Fault(field, name, "expected package.module:callable"))
    module = _module(name, module_name, field)
    found = getattr(module, attribute, None)
    if found is None:
        public = [word for word, value in vars(module).items() if callable(value) and word[0] != "_"]
        raise InputError(Fault(field, name, expected_name(attribute, f"callable in {module_name}", public)))
    if not callable(found):
        raise InputError(Fault(field, name, f"is a {type(found).__name__}; expected a callable"))
    return found  # type: ignore[no-any-return]


def _module(name: str, module_name: str, field: str) -> Any:
    # A console script does not search the current folder; appended, so that it hides nothing installed.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = f"no module {error.name}; expected one that is installed or in the current folder"
        raise InputError(Fault(field, name, missing)) from error
    except Exception as error:
        failed = f"importing it failed: {type(error).__name__}: {error}"
        raise InputError(Fault(field, name, failed)) from error
