"""Empty environments with the wheel of this checkout, and no more than it needs.

Packages are those of this environment, by links, since an index may be out of reach; that pip finds them by itself was
seen by hand.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def packages(*extras: str) -> list[str]:
    """The packages of the base install and of extras, and those that they need in turn."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [*project["dependencies"], *(each for name in extras for each in project["optional-dependencies"][name])]
    found: dict[str, None] = {}
    while waiting:
        asked = Requirement(waiting.pop())
        if asked.name not in found and (asked.marker is None or asked.marker.evaluate({"extra": ""})):
            found[asked.name] = None
            waiting += distribution(asked.name).requires or []
    return list(found)


def outside() -> dict[str, str]:
    """An environment in which no checkout can be imported."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


class Environments:
    """Environments in a folder, all with the same wheel."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wheel = _built(folder)

    def with_wheel(self, *extras: str) -> Path:
        """The palmette command of a new environment, with the base install and these extras."""
        home = self._folder / "-".join(("base", *extras))
        venv.create(home, symlinks=True)
        python = home / "bin" / "python"
        install = [*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(self._wheel)]
        subprocess.run(install, check=True, timeout=100, capture_output=True, env=outside())
        (site,) = (home / "lib").glob("python*/site-packages")
        for name in packages(*extras):
            for file in _tops(name):
                if not (site / file).exists():
                    (site / file).symlink_to(distribution(name).locate_file(file))
        return python.with_name("palmette")

    def downloaded(self, folder: Path) -> list[Path] | None:
        """What pip fetches for the base install, the wheel itself included; None where it does not find it."""
        fetch = [*PIP, "download", "--dest", str(folder), str(self._wheel)]
        done = subprocess.run(fetch, check=False, timeout=200, capture_output=True, env=outside())
        return sorted(folder.iterdir()) if done.returncode == 0 else None

    def installed_by_pip(self, interpreter: str) -> Path | None:
        """The palmette command in a new environment of another Python; None where pip finds no packages for it."""
        home = self._folder / Path(interpreter).parents[1].name
        subprocess.run([interpreter, "-m", "venv", str(home)], check=True, timeout=100, capture_output=True)
        install = [*PIP, "--python", str(home / "bin" / "python"), "install", "--no-compile", str(self._wheel)]
        done = subprocess.run(install, check=False, timeout=200, capture_output=True, env=outside())
        return home / "bin" / "palmette" if done.returncode == 0 else None


def later_pythons() -> list[str]:
    """Other interpreters on this machine that are later than 3.11: on the PATH, and of pyenv."""
    found = []
    for minor in range(12, 20):
        name = f"python3.{minor}"
        kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/{name}"))
        found += [str(kept[-1])] if kept else [path for path in (shutil.which(name),) if path and "shims" not in path]
    return [path for path in found if Path(path).resolve() != Path(sys.executable).resolve()]


def _built(folder: Path) -> Path:
    """The wheel of this checkout."""
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run(build, check=True, timeout=100, capture_output=True)
    (wheel,) = folder.glob("palmette-*.whl")
    return wheel


def _tops(name: str) -> Iterator[Path]:
    """What a package has in the folder of packages."""
    tops = {file.parts[0] for file in distribution(name).files or []}
    yield from (Path(top) for top in sorted(tops) if top != ".." and not top.endswith(".pth"))
