from pathlib import Path

import pytest

from palmette.plan.hybrid import stages
from tests.cli.world import World
from tests.plan.problems import LITTLE


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    return World(tmp_path, capsys)


@pytest.fixture(autouse=True)
def _little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands show what a search finds, however little it searches; ``compare`` and ``auto`` always search."""
    for name in ("EFFORT", "EFFORT_PER_NODE", "EFFORT_PER_SOURCE"):
        monkeypatch.setattr(stages, name, round(LITTLE * getattr(stages, name)))
