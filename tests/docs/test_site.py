"""The documentation site builds strictly, and needs nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs mkdocs-material (scripts/install docs)")
def test_it_builds_strictly_and_works_offline(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "scripts/collect_pages"], cwd=ROOT, check=True, timeout=60)
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<(?:script|link)[^>]*(?:src|href)="(https?://[^"]*)"', index) == []
    assert (tmp_path / "site" / "search" / "search_index.js").exists()
