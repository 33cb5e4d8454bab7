"""Links whose bandwidth changes during a run: the testbed replays a trace, and the clock plays the same iterations.

    python -m benchmarks.fidelity --traces [--trace FILE …]

Iterations are estimated one after the other, each from the moment at which the one before has ended, with samples as
large as those that the run really sends.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.fidelity.cases import cluster, plan, trees
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.cost.evaluate import Evaluator
from palmette.measure.profiling import profile_network
from palmette.runtime.options import Options
from palmette.runtime.training.job import ProgressUpdate
from palmette.spec.cluster import Cluster
from palmette.spec.link_csv import read_trace
from palmette.spec.link_trace import BandwidthTrace
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.models import load_network

MODEL, BATCH = "lenet5", 48
ITERATIONS = 24


def made_traces() -> dict[str, BandwidthTrace]:
    """A link that comes and goes slowly, and one that drops to next to nothing for a second now and then."""
    wave = tuple(5e6 * (1.2 + math.sin(k / 4)) for k in range(60))
    drops = tuple(1e5 if k % 5 == 4 else 8e6 for k in range(60))
    seconds = tuple(float(k) for k in range(60))
    return {
        "wave": BandwidthTrace(time_s=seconds, down_bps=wave),
        "drops": BandwidthTrace(time_s=seconds, down_bps=drops),
    }


def trace_rows(files: list[Path], testbed: str, *, quick: bool) -> list[dict[str, Any]]:
    """Measured and estimated seconds of all iterations of a run, over each trace."""
    traces = {path.stem: read_trace(path) for path in files} or made_traces()
    network = load_network(MODEL)
    rows = []
    for name, trace in list(traces.items())[: 1 if quick else None]:
        link = cluster(5.0).links[0].model_copy(update={"bandwidth_bps": None, "bandwidth_trace": trace})
        where = cluster(5.0).model_copy(update={"links": (link, *cluster(100.0).links[1:])})
        for tree in ("split-in-two", "hiertrain-like")[: 1 if quick else None]:
            made = plan(MODEL, trees(len(network.layers), BATCH)[tree])
            profile = profile_network(network, where, [])
            measured_s, prices = _measured_s(made, profile, where, testbed)
            estimated_s = estimated_iterations_s(made.phases[0], prices, len(measured_s))
            rows.append(
                {
                    "testbed": testbed,
                    "model": MODEL,
                    "tree": f"trace {name}: {tree}",
                    "bandwidth_mbit": trace.mean_bps[1] / 1e6,
                    "measured_s": sum(measured_s),
                    "estimated_s": sum(estimated_s),
                    "error": sum(measured_s) / sum(estimated_s) - 1,
                    "dilation": 1.0,
                }
            )
    return rows


def _measured_s(made: Plan, profile: Profile, where: Cluster, testbed: str) -> tuple[list[float], Evaluator]:
    """Seconds of each iteration of a run, and the evaluator that knows the data of the run."""
    taken: list[float] = []

    def on_update(update: ProgressUpdate) -> None:
        if update.evaluation is None:
            taken.append(update.iteration_s)

    with tempfile.TemporaryDirectory() as folder:
        running = prepare(made, profile, where, request(testbed), Path(folder))
        running.run(on_update, lambda _: None)
    return taken, running.evaluator


def request(testbed: str) -> Request:
    """What the runs ask for."""
    options = Options(seed=1, lr=0.001)
    return Request(iterations=ITERATIONS, testbed=testbed, replan=False, dilation=1.0, options=options)


def estimated_iterations_s(phase: Phase, prices: Evaluator, many: int) -> list[float]:
    """Seconds of each of so many iterations, one after the other from the beginning of the traces."""
    found: list[float] = []
    for _ in range(many):
        then = Evaluator(prices.profile, prices.cluster, prices.optimizer, prices.exchange, moment_s=sum(found))
        found.append(then.price(phase).iteration_s)
    return found
