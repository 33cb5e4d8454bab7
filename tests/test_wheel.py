"""The wheel, in an empty environment with no more than the base install: it plans, prices and reports without torch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.plan.problems import profile
from tests.wheel import ROOT, Environments, later_pythons, outside

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


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    return Environments(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(environments: Environments) -> Path:
    """The palmette command of an empty environment with the wheel and the base packages."""
    return environments.with_wheel()


def run(command: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(command), *arguments], cwd=folder, env=outside(), capture_output=True, text=True, timeout=60, check=False
    )


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
@pytest.mark.timeout(300)
def test_planning_needs_less_than_120_mb_of_downloads(environments: Environments, tmp_path: Path) -> None:
    files = environments.downloaded(tmp_path)
    if files is None:
        pytest.skip("no index has the packages")
    assert not [file.name for file in files if file.name.startswith(("torch", "nvidia"))]
    total = sum(file.stat().st_size for file in files)
    assert total < 120e6
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    told = float(page.partition(" MB to download")[0].rpartition("(")[2])
    assert total / 1e6 == pytest.approx(told, rel=0.15)


@pytest.mark.slow
def test_what_needs_torch_says_how_to_get_it(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    done = run(installed, tmp_path, "profile", "lenet5", "--cluster", "cluster.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "palmette: torch is not installed; profiling and training need: pip install 'palmette[run]'\n"
    (tmp_path / "training.yaml").write_text("cluster: cluster.yaml\nmodel: lenet5\nepochs: 1\n")
    assert run(installed, tmp_path, "up", "-y").stderr == done.stderr
    examined = run(installed, tmp_path, "doctor")
    assert "pip install 'palmette[run]' to train, too" in examined.stdout
    assert examined.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("epoch: 1", "training.yaml: epoch: 1: unknown field; did you mean epochs?"),
        ("strategy: hybrit", "training.yaml: strategy: hybrit: no such strategy; did you mean hybrid?"),
        ("engine: hubb", "training.yaml: engine: hubb: no such engine; did you mean hub?"),
        ("learning: curve.json", "curve.json: the file: cannot be read: No such file or directory"),
    ],
    ids=lambda each: each.partition(":")[0],
)
def test_what_is_wrong_with_a_training_file_is_told_without_torch(
    installed: Path, tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "training.yaml").write_text(f"cluster: cluster.yaml\nmodel: lenet5\n{line}\n")
    done = run(installed, tmp_path, "up", "-y")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"palmette: {said}\n")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("interpreter", later_pythons(), ids=lambda path: Path(path).name)
def test_it_plans_on_later_pythons(environments: Environments, tmp_path: Path, interpreter: str) -> None:
    command = environments.installed_by_pip(interpreter)
    if command is None:
        pytest.skip("no index has the packages for it")
    (tmp_path / "profile.json").write_text(profile(3).to_json())
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    inputs = ("--profile", "profile.json", "--cluster", "cluster.yaml")
    for arguments in (("plan", "all-edge", *inputs, "-o", "plan.json"), ("estimate", "plan.json"), ("doctor",)):
        done = run(command, tmp_path, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
