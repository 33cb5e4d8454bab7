"""A folder in which the commands of a page are typed, with searches and measurements that end soon."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.measure import repetitions
from palmette.plan.hybrid import stages
from tests.docs.commands import ROOT
from tests.docs.session import Type, steps
from tests.plan.problems import LITTLE


@pytest.fixture(autouse=True)
def _soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches and measurements with little effort, and nothing of the user's own."""
    for name in ("EFFORT", "EFFORT_PER_NODE", "EFFORT_PER_SOURCE"):
        monkeypatch.setattr(stages, name, round(LITTLE * getattr(stages, name)))
    for name in ("SMALL_EFFORT", "PIPELINE_EFFORT", "SIDE_BY_SIDE_EFFORT"):
        monkeypatch.setattr(stages, name, 0)
    monkeypatch.setattr(repetitions, "BUDGET_S", 0.5)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    monkeypatch.setenv("COLUMNS", "180")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Types a command in an empty folder; what it prints."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def type_(text: str, instead: Mapping[str, str] = MappingProxyType({}), code: int = 0) -> str:
        for written, meant in instead.items():
            text = text.replace(written, meant)
        words = [str(name) for word in shlex.split(text, comments=True)[1:] for name in sorted(_expanded(word))]
        assert execute(words) == code, (text, capsys.readouterr().err)
        return "\n".join(capsys.readouterr())

    return type_


@pytest.fixture(scope="session")
def small_profile() -> str:
    """The profile that scripts/demo leaves behind."""
    cluster = pt.load_cluster(ROOT / "examples" / "busy-phone" / "cluster.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repetitions, "BUDGET_S", 0.5)
        return pt.profile("lenet5", cluster=cluster, data="digits").to_json()


@pytest.fixture
def demo(run: Type, tmp_path: Path, small_profile: str) -> Type:
    """After scripts/demo."""
    (tmp_path / "build" / "demo").mkdir(parents=True)
    (tmp_path / "build" / "demo" / "profile.json").write_text(small_profile)
    return run


@pytest.fixture
def started(run: Type, tmp_path: Path, small_profile: str) -> Type:
    """After Getting started: with its cluster, the plan that it writes by hand, a profile and another plan."""
    list(steps(ROOT / "docs" / "getting-started.md", tmp_path))
    (tmp_path / "profile.json").write_text(small_profile)
    run("palmette plan all-edge --profile profile.json --cluster cluster.yaml --batch 128 -o plan.json")
    return run


def _expanded(word: str) -> list[Path] | list[str]:
    """The files that a pattern stands for, as a shell has it."""
    return list(Path().glob(word)) if "*" in word and "=" not in word and list(Path().glob(word)) else [word]
