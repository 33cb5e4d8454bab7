from pathlib import Path

import pytest

from tests.cli.world import World
from tests.plan.problems import search_a_little


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    return World(tmp_path, capsys)


@pytest.fixture(autouse=True)
def _little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands show what a search finds, however little it searches."""
    search_a_little(monkeypatch)
