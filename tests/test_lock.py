"""The lock file names a version and a hash for all that the base install and the extra run ask for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"([A-Za-z0-9._-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def normal(name: str) -> str:
    """A name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])))


def test_every_requirement_is_locked_with_a_hash() -> None:
    head, *lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert re.fullmatch(r"# linux x86_64 python3\.\d+", head)
    found = {}
    for line in lines:
        match = LINE.fullmatch(line)
        assert match is not None, line
        found[normal(match[1])] = numbers(match[2])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for wanted in [*project["dependencies"], *project["optional-dependencies"]["run"]]:
        name, sign, version = re.split(r"(>=|==)", wanted, maxsplit=1)
        locked = found[normal(name)]
        assert locked == numbers(version) if sign == "==" else locked >= numbers(version), wanted
