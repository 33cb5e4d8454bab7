"""What an import brings along, and what the front door offers."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
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


@pytest.mark.slow
def test_no_modules_import_one_another() -> None:
    """Imports inside functions and those for type checking count, too."""
    graph = grimp.build_graph("palmette", cache_dir=None)
    order = TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})

    assert len(list(order.static_order())) == len(graph.modules)


def test_plan_is_the_function_and_its_folder_can_still_be_imported() -> None:
    from palmette.plan.rivals.whole import AllEdge

    assert callable(pt.plan)
    assert AllEdge.name == "all-edge"


def test_all_names_what_is_there() -> None:
    assert all(hasattr(pt, name) for name in pt.__all__)
    assert list(pt.__all__) == sorted(pt.__all__)
