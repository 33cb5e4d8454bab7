"""``palmette init --recipe`` writes a training that runs as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.cli import execute
from tests.runtime.world import CLUSTER, NODES

HERE = [word for node in NODES for word in ("--on", node)]


@pytest.mark.slow
def test_the_written_recipe_is_profiled_and_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    assert execute(["init", "--recipe", "my_training.py"]) == 0
    name = "my_training:recipe"
    assert execute(["profile", "--recipe", name, "--cluster", "cluster.yaml", *HERE, "-o", "profile.json"]) == 0
    files = ["--profile", "profile.json", "--cluster", "cluster.yaml"]
    assert execute(["plan", "all-device", *files, "-o", "plan.json"]) == 0
    assert execute(["run", "plan.json", "--recipe", name, "--iterations", "2", "--testbed", "none", "--quiet"]) == 0
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_file_is_not_overwritten_and_has_to_be_importable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert execute(["init", "--recipe", "my training.py"]) == 2
    assert "expected the name of a Python file" in capsys.readouterr().err
    (tmp_path / "training.py").write_text("")
    assert execute(["init", "--recipe", "training.py"]) == 2
    assert "file exists" in capsys.readouterr().err


def test_a_profile_needs_a_model_or_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    for given in ([], ["lenet5", "--recipe", "tests.runtime.recipes:zoo"]):
        assert execute(["profile", *given, "--cluster", str(tmp_path / "cluster.yaml")]) == 2
        assert "expected either MODEL or a recipe" in capsys.readouterr().err
