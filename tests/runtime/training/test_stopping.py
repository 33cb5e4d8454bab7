"""A stop does not wait for an iteration that takes long, and nothing is lost but that iteration."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.runtime.options import Options
from palmette.runtime.sync.base import StopTimeout
from palmette.runtime.training.job import RemainingTime
from palmette.runtime.training.loop import Training
from tests.cost.small import cluster, instance, node, phase, source
from tests.runtime.rig import Rig
from tests.runtime.trees import Forest

TWO_NODES = phase(source("a", 4, "1"), instance("1", 1, 1, "a", "2"), instance("2", 2, 2, "b"))
WHERE = cluster({"between": ["a", "b"], "bandwidth": "8 Mbit/s"}, a=node(100), b=node())


class Slow(nn.Linear):
    """A layer that now and then takes very long."""

    quick = threading.Event()
    quick.set()

    def forward(self, values: Tensor) -> Tensor:
        Slow.quick.wait(60)
        return super().forward(values)


def forest(folder: Path) -> Forest:
    torch.manual_seed(1)
    rig = Rig([nn.Linear(5, 5), Slow(5, 3)], (5,), options=Options(optimizer="momentum", lr=0.05))
    folder.mkdir(exist_ok=True)
    return Forest(rig, TWO_NODES, WHERE, folder)


@pytest.mark.timing
def test_a_stop_gives_up_a_long_iteration_and_the_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    _, expected = forest(tmp_path / "whole").trained(iterations=5)
    made, stopped_s = forest(tmp_path / "stopped"), []

    def stop(training: Training) -> None:
        stopped_s.append(time.monotonic())
        training.stop()

    def watch(training: Training, update: Any) -> None:
        if update.iteration == 2 and update.evaluation is None:
            Slow.quick.clear()
            threading.Timer(0.3, stop, [training]).start()

    made.watch = watch
    outcome, _ = made.trained(iterations=5)
    Slow.quick.set()
    assert time.monotonic() - stopped_s[0] < 8
    assert (outcome.ended, outcome.iterations) == ("stopped", 2)
    made.watch = lambda *_: None
    outcome, found = made.trained(resume=True, iterations=5)
    assert (outcome.ended, outcome.iterations) == ("done", 5)
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_a_run_that_is_stopped_while_its_workers_start_ends_at_once(tmp_path: Path) -> None:
    training = Training(forest(tmp_path).job(iterations=5), lambda _: None)
    training.stop()
    outcome = training.run()
    assert (outcome.ended, outcome.iterations) == ("stopped", 0)


def test_before_the_first_iteration_it_is_told_how_long_all_take_here(tmp_path: Path) -> None:
    made = forest(tmp_path)
    made.testbed.dilation = 4.0
    job = made.job(iterations=5)
    training, told = Training(job, lambda update: told.append(update)), list[Any]()  # noqa: PLW0108  (it comes first)
    training.on_time_estimate.append(told.append)
    assert training.iterations == 5
    outcome = training.run()
    expected_s = 4.0 * 5 * job.evaluator.price(TWO_NODES).iteration_s
    assert told[0] == RemainingTime(5, expected_s, 4.0, increased=False)
    assert outcome.expected_wall_s is not None
    assert outcome.expected_wall_s >= expected_s


@pytest.mark.timing
def test_patience_ends_a_while_after_a_stop() -> None:
    stopping: list[bool] = []
    patience = StopTimeout(lambda: bool(stopping), 0.05)
    assert not patience()
    stopping.append(True)
    assert not patience()
    time.sleep(0.06)
    assert patience()
