"""Workers with another torch than the hub's leave the weights of one process.

It takes an environment with that torch, and with the rest of what a worker needs, whose Python is named:

    PALMETTE_OTHER_PYTHON=/tmp/torch-2.4.1/bin/python pytest tests/control/run/test_another_torch.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from palmette.cli import execute
from palmette.runtime.options import Options
from tests.control.hub_workers import HubWorkers, worker_process
from tests.control.run.test_processes import assert_equal, trees
from tests.cost.small import instance, phase, source
from tests.runtime.rig import relatively_off
from tests.runtime.world import CLUSTER, NODES, TINY, Runs, weights

OTHER = os.environ.get("PALMETTE_OTHER_PYTHON", "")
DOUBLE = Options(optimizer="momentum", lr=0.05, seed=3, dtype="float64")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not OTHER, reason="PALMETTE_OTHER_PYTHON names no Python with another torch"),
]


@pytest.fixture
def place(runs: Runs) -> Iterator[HubWorkers]:
    runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
    with HubWorkers(runs.folder) as made:
        yield made


@contextmanager
def others(place: HubWorkers, nodes: Sequence[str] = NODES) -> Iterator[None]:
    """Workers of some nodes in processes with another torch."""
    processes = [worker_process(place, node, "--any-version", python=OTHER) for node in nodes]
    try:
        assert not place.hub.wait_for(nodes, 60)
        assert len({each.torch_version for each in place.hub.workers()}) == 1
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.communicate(timeout=30)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("name", ["cut in three", "hierarchy", "three replicas"])
def test_weights_equal_those_of_one_process(runs: Runs, place: HubWorkers, name: str, optimizer: str) -> None:
    with others(place):
        options = replace(DOUBLE, optimizer=optimizer, lr=0.01)
        assert_equal(runs, TINY, trees(5)[name], options, *place.options)


def test_workers_with_both(runs: Runs, place: HubWorkers) -> None:
    with others(place, ["phone", "cloud"]):
        place.start(["server"])
        assert_equal(runs, "lenet5", trees(7)["hierarchy"], DOUBLE, *place.options, iterations=5)


@pytest.mark.parametrize("sync", ["epoch", "every"])
def test_other_syncs(runs: Runs, place: HubWorkers, sync: str) -> None:
    windows = {"every": 3, "outer": {}} if sync == "every" else {}
    parts = [*(source(at, 6, at) for at in NODES), *(instance(at, 1, 5, at) for at in NODES)]
    tree = phase(*parts, sync=sync, server="server", **windows)
    chosen = ["--iterations", "4", "--dtype", "float64", "--quiet"]
    with others(place):
        for name, more in (("hub", place.options), ("local", [])):
            assert execute([*runs.arguments(TINY, tree), *more, *chosen, "-o", str(runs.folder / name)]) == 0
    assert relatively_off(weights(runs.folder / "hub"), weights(runs.folder / "local")) <= 1e-12
