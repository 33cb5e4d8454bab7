"""The house keeps its own map: package docstrings list the files that are there, and no class name is used twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "palmette"
ENTRY = re.compile(r"\s*((?:[a-z_][a-z0-9_]*(?:, )?)+)\s{2,}\S")
PACKAGES = sorted(file.parent for file in ROOT.rglob("__init__.py"))


def listed(package: Path) -> set[str]:
    """The names that a package's docstring gives: first in a line, two spaces before what they are."""
    described = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    entries = [ENTRY.match(line) for line in described.splitlines()[1:]]
    return {name for entry in entries if entry for name in entry.group(1).split(", ")}


def contained(package: Path) -> set[str]:
    modules = {file.stem for file in package.glob("*.py")} - {"__init__"}
    return modules | {file.parent.name for file in package.glob("*/__init__.py")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT.parent)))
def test_a_package_lists_exactly_its_files(package: Path) -> None:
    assert listed(package) == contained(package)


def test_no_class_name_is_used_for_two_things() -> None:
    found = defaultdict(list)
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
