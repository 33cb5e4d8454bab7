"""The wheel, in an empty environment with no more than the base install: it plans, prices and reports without torch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.plan.problems import profile

ROOT = Path(__file__).parents[1]
CLUSTER = """\
nodes:
  phone: {tier: device, power: {idle: 2 W, busy: 5 W}, source: {samples: 300}}
  server: {tier: edge, power: {idle: 7 W, busy: 22 W}, price: 0.1 EUR/h}
  cloud: {tier: cloud, power: {idle: 90 W, busy: 300 W}, price: 2 EUR/h}
links:
  - {between: [phone, server], bandwidth: 5 Mbit/s}
  - {between: [server, cloud], bandwidth: 3 Mbit/s}
carbon: 300 g/kWh
"""


def base_packages() -> list[str]:
    """The packages of the base install, and those that they need in turn."""
    found: dict[str, None] = {}
    waiting = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    while waiting:
        name = re.split(r"[^A-Za-z0-9._-]", waiting.pop(), maxsplit=1)[0]
        if name not in found:
            found[name] = None
            waiting += [each for each in distribution(name).requires or [] if ";" not in each]
    return list(found)


def link_package(name: str, site: Path) -> None:
    """Put an installed package into another environment, by links."""
    for file in distribution(name).files or []:
        top = Path(file.parts[0])
        if top.parts[0] != ".." and top.suffix != ".pth" and not (site / top).exists():
            (site / top).symlink_to(distribution(name).locate_file(top))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The palmette command of an empty environment with the wheel and the base packages."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run(build, check=True, timeout=100, capture_output=True)
    (wheel,) = folder.glob("palmette-*.whl")
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    install = [*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=100, capture_output=True, env=outside())
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    for name in base_packages():
        link_package(name, site)
    return python.with_name("palmette")


def run(command: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(command), *arguments], cwd=folder, env=outside(), capture_output=True, text=True, timeout=60, check=False
    )


def outside() -> dict[str, str]:
    """An environment in which no checkout can be imported."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_plans_prices_and_reports_without_torch(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(profile(3).to_json())
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    inputs = ("--profile", "profile.json", "--cluster", "cluster.yaml")
    for arguments in (
        ("--version",),
        ("init", "new.yaml", "--yes"),
        ("check", "cluster.yaml", "profile.json"),
        ("compare", *inputs, "--goal", "cost"),
        ("plan", "auto", *inputs, "--effort", "0.1", "-o", "plan.json"),
        ("plan", "all-edge", *inputs, "-o", "other.json"),
        ("estimate", "plan.json", "--epochs", "3"),
        ("what-if", "other.json", "--link", "phone-server=1Mbit/s"),
        ("program", "plan.json", "--node", "phone"),
        ("report", "plan.json", "-o", "report.html", "--no-rivals"),
    ):
        done = run(installed, tmp_path, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.slow
def test_what_needs_torch_says_how_to_get_it(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    done = run(installed, tmp_path, "profile", "lenet5", "--cluster", "cluster.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "palmette: torch is not installed; profiling and training need: pip install 'palmette[run]'\n"
    examined = run(installed, tmp_path, "doctor")
    assert "pip install 'palmette[run]' to train, too" in examined.stdout
    assert examined.stderr == ""
