"""Cases of random tests: a few for every run of ``slow`` tests, the rest for ``scripts/test --thorough``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_thorough(cases: Iterable[Any], few: int) -> list[Any]:
    """All cases, marked ``thorough`` but for the first few."""
    return [case if k < few else pytest.param(case, marks=pytest.mark.thorough) for k, case in enumerate(cases)]
