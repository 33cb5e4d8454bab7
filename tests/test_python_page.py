"""The program in docs/python.md runs as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


@pytest.mark.slow
def test_the_program_of_the_page_trains_and_stops_when_it_is_good_enough(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PAGE.read_text(encoding="utf-8").split("```python\n")[1].partition("```")[0])
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Comparison(" in done.stdout
    assert "RunOutcome(ended: " in done.stdout
    assert (tmp_path / "run" / "model.safetensors").exists()
