"""Ray itself: an optional extra, imported when it is needed and quiet on the terminal."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from pathlib import Path
from types import ModuleType

from palmette.errors import ArgumentFault, InputError, one_line

# Ray would print advice, and complaints about strangers at its ports, among the errors of a run.
_QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": ".*", "GRPC_VERBOSITY": "NONE"}
_WITHOUT_ROCM = Path(__file__).with_name("without_rocm")


def ray_library() -> ModuleType:
    """The module ``ray``.

    Raises:
        InputError: it is not installed, or does not work here.
    """
    if importlib.util.find_spec("ray") is None:
        raise InputError(ArgumentFault("engine", "ray", "Ray is not installed; pip install palmette[ray]"))
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if _rocm_is_missing():
        sys.modules["amdsmi"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        return importlib.import_module("ray")
    except Exception as error:  # noqa: BLE001  (whatever it raises, it is not ours)
        why = f"{type(error).__name__}: {one_line(str(error))}"
        raise InputError(ArgumentFault("engine", "ray", f"Ray cannot be imported: {why}")) from None


def environment() -> dict[str, str]:
    """The environment for Ray's own processes."""
    if not _rocm_is_missing():
        return dict(os.environ)
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(_WITHOUT_ROCM), *([before] if before else [])])
    return os.environ | {"PYTHONPATH": path}


def _rocm_is_missing() -> bool:
    """Whether AMD's ``amdsmi``, which Zeus installs, lacks its native library; Ray would crash then."""
    if sys.modules.get("amdsmi", ...) is None:
        return True
    if importlib.util.find_spec("amdsmi") is None:
        return False
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            importlib.import_module("amdsmi")
    except Exception:  # noqa: BLE001  (whatever it raises, Ray would crash)
        return True
    return False
