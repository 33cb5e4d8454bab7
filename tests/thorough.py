"""Cases of random tests: a few for every run, the rest for ``scripts/test --all`` or ``--thorough``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_thorough(cases: Iterable[Any], few: int) -> list[Any]:
    """All cases, marked ``thorough`` but for the first few."""
    return _marked(cases, few, pytest.mark.thorough)


def mostly_slow(cases: Iterable[Any], few: int) -> list[Any]:
    """All cases, marked ``slow`` but for the first few."""
    return _marked(cases, few, pytest.mark.slow)


def _marked(cases: Iterable[Any], few: int, mark: pytest.MarkDecorator) -> list[Any]:
    return [case if k < few else pytest.param(case, marks=mark) for k, case in enumerate(cases)]
