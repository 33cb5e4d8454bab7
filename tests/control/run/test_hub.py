"""Runs whose workers dial in: the same weights as in one process, whatever the tree and the sync."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from palmette.runtime.options import Options
from tests.control.hub_workers import HubWorkers
from tests.control.run.test_processes import assert_equal, trees
from tests.runtime.world import TINY, Runs

DOUBLE = Options(optimizer="momentum", lr=0.05, seed=3, dtype="float64")


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    with HubWorkers(runs.folder) as made:
        yield made


def test_weights_equal_those_of_one_process(runs: Runs, place: HubWorkers) -> None:
    place.start()
    assert_equal(runs, TINY, trees(5)["cut in three"], DOUBLE, *place.options)


@pytest.mark.slow
@pytest.mark.parametrize("name", trees(5))
def test_weights_equal_those_of_one_process_for_every_tree(runs: Runs, place: HubWorkers, name: str) -> None:
    place.start()
    assert_equal(runs, TINY, trees(5)[name], DOUBLE, *place.options)
