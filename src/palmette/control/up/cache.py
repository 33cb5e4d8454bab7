"""Profiles that were measured before, by network, machine and versions: another training need not measure again.

They are in ``palmette/profiles`` of the user's cache folder. A recipe, or a network from the user's own code, is known
by the content of the file that defines it, too.
"""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from palmette.control.up.folder import digest
from palmette.errors import InputError, RunError
from palmette.spec.cluster import Cluster
from palmette.spec.files import load, make_folder, write_text
from palmette.spec.profile import Profile
from palmette.spec.training import TrainingFile

_MEASURED_BY = ("palmette", "torch", "numpy")


def profile_inputs(training: TrainingFile, cluster: Cluster) -> dict[str, Any]:
    """All that a profile depends on."""
    fields = {"tier", "hardware", "host", "device", "threads"}
    return {
        "model": training.network,
        "code": _code(training.network),
        "data": training.data,
        "input_shape": training.input_shape,
        "engine": training.engine,
        "nodes": {name: node.model_dump(include=fields) for name, node in cluster.nodes.items()},
        "machine": [platform.node(), platform.machine(), _processor(), os.cpu_count()],
        "versions": [platform.python_version(), *(version(name) for name in _MEASURED_BY)],
    }


def cached_profile(made_from: dict[str, Any]) -> Profile | None:
    """The profile that was made from the same before; None where there is none, or it cannot be read."""
    try:
        return load(Profile, _file(made_from))
    except InputError:
        return None


def cache_profile(profile: Profile, made_from: dict[str, Any]) -> None:
    """Keep a profile; where nothing can be written, it is measured again."""
    with suppress(OSError, InputError, RunError):
        make_folder(_file(made_from).parent)
        write_text(_file(made_from), profile.to_json())


def _file(made_from: dict[str, Any]) -> Path:
    asked = os.environ.get("XDG_CACHE_HOME")
    folder = Path(asked) if asked else Path.home() / ".cache"
    return folder / "palmette" / "profiles" / f"{digest(made_from)}.json"


def _code(name: str) -> str | None:
    """A checksum of the file that defines a network, which is not imported; None for one of the zoo."""
    module, colon, _ = name.partition("?")[0].partition(":")
    if not colon:
        return None
    place = module.replace(".", "/")
    for folder in (Path.cwd(), *map(Path, sys.path)):
        for file in (folder / f"{place}.py", folder / place / "__init__.py"):
            if file.is_file():
                return sha256(file.read_bytes()).hexdigest()
    return None


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
