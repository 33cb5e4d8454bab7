"""Iterations over links that change, estimated as a run sees them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.fidelity import traces
from benchmarks.fidelity.cases import cluster, plan, trees
from palmette.control.run.session import TrainingSession
from palmette.cost.evaluate import Evaluator
from palmette.measure.profiling import profile_network
from palmette.runtime.training.job import ProgressUpdate
from palmette.spec.link_trace import BandwidthTrace
from palmette.zoo.models import load_network


def test_a_trace_that_stays_the_same_is_a_bandwidth() -> None:
    network = load_network("lenet5")
    phase = plan("lenet5", trees(len(network.layers), 48)["hiertrain-like"]).phases[0]
    steady = cluster(5.0)
    profile = profile_network(network, steady, [])
    same = BandwidthTrace(time_s=(0.0, 0.1), down_bps=(5e6, 5e6 * (1 + 1e-9)))
    link = steady.links[0].model_copy(update={"bandwidth_bps": None, "bandwidth_trace": same})
    traced = Evaluator(profile, steady.model_copy(update={"links": (link, *steady.links[1:])}))
    expected_s = Evaluator(profile, steady).price(phase).iteration_s
    assert traces.estimated_iterations_s(phase, traced, 3) == pytest.approx([expected_s] * 3)


def test_samples_are_as_large_as_those_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits have 64 bytes: counted as inputs of 12 KiB, trees that send them were estimated 2.7 times as long."""

    def as_estimated(session: TrainingSession, on_update: Any, _said: Any) -> None:
        phase = session.plan.phases[0]
        for took_s in traces.estimated_iterations_s(phase, session.evaluator, 2):
            on_update(ProgressUpdate(1, 2, 1, 0.0, 48, 0.0, iteration_s=took_s))

    monkeypatch.setattr(TrainingSession, "run", as_estimated)
    rows = traces.trace_rows([], "paced", quick=False)
    assert [row["error"] for row in rows] == [0.0] * 4
