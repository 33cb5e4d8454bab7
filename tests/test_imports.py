"""What an import brings along, and what the front door offers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import palmette as pt

ROOT = Path(__file__).parents[1]
LIGHT = """
import sys
import palmette
heavy = {"torch", "numpy", "scipy", "sklearn", "rich", "typer"}
print(sorted(heavy & set(sys.modules)))
"""

PLANNING = """
import sys
import palmette as pt
from tests.plan.problems import profile, three_tiers
plan = pt.plan("all-edge", profile=profile(), cluster=three_tiers())
pt.estimate(plan, timeline=True)
print(sorted({"torch", "numpy", "scipy", "sklearn", "rich", "typer"} & set(sys.modules)))
"""

WORKING = """
import sys
from palmette.cli import app
from palmette.runtime.engines.hub.building import SetupBuilder
from palmette.runtime.engines.hub.dialler import HubWorker
from palmette.runtime.sync.registry import WORKER_SIDES
print(sorted({"scipy", "sklearn", "rich", "ray", "torch_pruning", "pandas", "PIL"} & set(sys.modules)))
"""


def printed(script: str) -> str:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT).stdout


def test_importing_palmette_imports_nothing_heavy() -> None:
    assert printed(LIGHT) == "[]\n"


def test_planning_and_pricing_import_nothing_heavy() -> None:
    assert printed(PLANNING) == "[]\n"


@pytest.mark.slow
def test_a_worker_at_a_hub_imports_nothing_that_it_seldom_needs() -> None:
    assert printed(WORKING) == "[]\n"


def test_plan_is_the_function_and_its_folder_can_still_be_imported() -> None:
    from palmette.plan.rivals.whole import AllEdge

    assert callable(pt.plan)
    assert AllEdge.name == "all-edge"


def test_all_names_what_is_there() -> None:
    assert all(hasattr(pt, name) for name in pt.__all__)
    assert list(pt.__all__) == sorted(pt.__all__)
