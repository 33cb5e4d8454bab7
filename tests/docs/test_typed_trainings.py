"""Pages that train first, typed as they are written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.commands import ROOT
from tests.docs.session import Type, Typed, own_training, steps, typed


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_recipes(started: Type, tmp_path: Path) -> None:
    first = next(step for step in steps(ROOT / "docs" / "recipes.md", tmp_path) if not isinstance(step, Typed))
    with own_training(tmp_path, first):
        said = [started(step.text) for step in list(typed("docs/recipes.md", tmp_path))[:3]]
    assert "one sample, forward and backward" in said[0]
    assert "mae" in said[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_choosing_machines(started: Type, tmp_path: Path) -> None:
    rows = "".join(f"{k / 30},{k % 7 / 7},{5 + k / 3 + k % 7}\n" for k in range(30))
    (tmp_path / "samples.csv").write_text("u_cpu,u_mem,power_w\n" + rows)
    said = [started(step.text) for step in typed("docs/choosing.md", tmp_path) if "…" not in step.text]
    assert "phone" in said[0]
    assert "server" in said[1]
    assert "an iteration: measured" in said[2]
    assert "mean error on held-out samples: 0.00%" in said[3]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_three_machines(run: Type, tmp_path: Path) -> None:
    said = [run(step.text) for step in typed("examples/three-machines/README.md", tmp_path)]
    assert len(said) == 4
    assert "an iteration: measured" in said[-1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_predicting_the_loss(started: Type, tmp_path: Path) -> None:
    said = {step.command.split()[2]: started(step.text) for step in typed("docs/predicting.md", tmp_path)}
    assert set(said) == {"loss", "collect", "train", "lenet5", "righttrain"}
    assert re.search(r"curves.jsonl: 16 curves, 16 of them new", said["collect"])
    assert re.search(r"\d epochs?: ", said["righttrain"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_file_one_command(run: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "examples" / "one-file" / "training.yaml", tmp_path)
    monkeypatch.setattr("palmette.cli.up._agrees", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    (first,) = typed("examples/one-file/README.md", tmp_path)
    assert "training/report.html: open it in any browser" in run(first.text)
