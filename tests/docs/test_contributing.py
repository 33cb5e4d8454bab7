"""The strategy that CONTRIBUTING shows: put into one file, it is a command, and its test passes."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.plan.core.registry import strategies
from tests.docs.commands import ROOT
from tests.docs.session import missing

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STRATEGY, TEST = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(SESSION,) = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def _with_one_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file that the page shows, as if it lay in the folder of plans."""
    (tmp_path / "added").mkdir()
    (tmp_path / "added" / "cut.py").write_text(STRATEGY)
    plans = import_module("palmette.plan")
    monkeypatch.setattr(plans, "__path__", [*plans.__path__, str(tmp_path / "added")])
    monkeypatch.chdir(tmp_path)
    strategies.cache_clear()
    yield
    strategies.cache_clear()
    sys.modules.pop("palmette.plan.cut", None)


@pytest.mark.slow
@pytest.mark.usefixtures("_with_one_cut")
def test_it_is_a_command_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "build" / "demo").mkdir(parents=True)
    cluster = pt.load_cluster("examples/three-tiers/cluster.yaml")
    predicted = pt.profile("lenet5", cluster=cluster, data="digits")
    (tmp_path / "build" / "demo" / "profile.json").write_text(predicted.to_json())
    for command in re.split(r"^\$ ", SESSION, flags=re.MULTILINE)[1:]:
        line, _, shown = command.partition("\n")
        assert execute(shlex.split(line)[1:]) == 0
        printed = capsys.readouterr().out
        assert missing(shown, printed) is None, printed


@pytest.mark.usefixtures("_with_one_cut")
def test_its_test_passes() -> None:
    names: dict[str, object] = {}
    exec(compile(TEST, "CONTRIBUTING.md", "exec"), names)
    found = names["test_no_other_cut_is_faster"]
    assert callable(found)
    found()
