"""The engine of a run at a hub dies: workers keep their state on their machines, and a resumed run goes on from it."""

from __future__ import annotations

import json
import re

import pytest

from palmette.cli import execute
from tests.control.hub_workers import DiallingWorkers, worker_process
from tests.control.run.test_resume import ADAM, REPLICAS, assert_same, palmette, when
from tests.runtime.world import CLUSTER, NODES, TINY, Runs, losses


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_where_the_engine_dies_a_run_goes_on_from_what_workers_keep(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """No checkpoint is made meanwhile: an epoch has 111 iterations, and a minute is far away."""
    runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
    whole, stopped, place = runs.folder / "whole", runs.folder / "stopped", DiallingWorkers(runs.folder)
    arguments = [*runs.arguments(TINY, REPLICAS), *ADAM, "--iterations", "110"]
    plan = json.loads((runs.folder / "plan.json").read_text())
    (runs.folder / "plan.json").write_text(json.dumps({**plan, "strategy": "hybrid", "asked": {}}))
    assert execute([*arguments, "-o", str(whole)]) == 0
    workers = [worker_process(place, node, "--quiet") for node in NODES]
    try:
        words = [*arguments, *place.options, "-o", str(stopped)]
        with palmette(*words, folder=runs.folder / "temporary") as process:
            when(stopped / "metrics.jsonl", 40, lambda: None).join()
            process.kill()
            process.communicate()
        done = len(losses(stopped))
        assert 40 <= done < 110
        capsys.readouterr()
        assert execute(["run", "--resume", str(stopped)]) == 0
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    said = re.search(r"continuing after (\d+) iterations, from what workers have kept", capsys.readouterr().err)
    assert said is not None
    assert done - 1 <= int(said[1]) <= done
    assert_same(stopped, whole)
