"""Modules of a user's own, written into a folder that is searched for modules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def write_module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> str:
    """A module of this text, which can be imported by its name."""
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name
