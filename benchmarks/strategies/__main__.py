"""Measured against estimated iterations of the strategies' plans: ``python -m benchmarks.strategies``, as JSON."""

from __future__ import annotations

import itertools
import statistics
import tempfile
from pathlib import Path
from typing import Any

import palmette as pt
from benchmarks.command import parser, print_result, progress
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.runtime.options import Options
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan, inputs_of
from palmette.zoo.hardware_defaults import fill_hardware_defaults

MODEL, BATCH, ITERATIONS = "lenet5", 48, 4
STRATEGIES = ("hiertrain", "jointdnn", "jointdnn+", "jalad", "hybrid")
QUICK_STRATEGIES = ("hiertrain", "hybrid")
# Between device and edge server, between edge server and cloud, Mbit/s.
BANDWIDTHS = ((1.5, 0.5), (6.0, 6.0), (30.0, 15.0))


def cluster(device_edge_mbps: float, edge_cloud_mbps: float, *, private: bool = False) -> Cluster:
    """Three tiers in a row, slow enough beside their links that it is worth sharing."""
    return fill_hardware_defaults(
        Cluster.model_validate(
            {
                "nodes": {
                    "phone": {
                        "tier": "device",
                        "hardware": "raspberry-pi-3",
                        "source": {"samples": 1500, "private": private},
                        "limits": {"cpu": "3%"},
                    },
                    "server": {"tier": "edge", "hardware": "raspberry-pi-3", "limits": {"cpu": "6%"}},
                    "cloud": {"tier": "cloud", "hardware": "raspberry-pi-4", "limits": {"cpu": "6%"}},
                },
                "links": [
                    {"between": ["phone", "server"], "bandwidth": f"{device_edge_mbps} Mbit/s", "latency": "2 ms"},
                    {"between": ["server", "cloud"], "bandwidth": f"{edge_cloud_mbps} Mbit/s", "latency": "5 ms"},
                ],
            }
        )
    )


def row(plan: Plan) -> dict[str, Any]:
    """Run a plan; what it took, what it should have taken, and what it is."""
    profile, where = inputs_of(plan, None, None)
    request = Request(iterations=ITERATIONS, options=Options(seed=1, lr=0.001))
    with tempfile.TemporaryDirectory() as folder:
        running = prepare(plan, profile, where, request, Path(folder))
        outcome = running.run(lambda _: None, lambda _: None)
    assert outcome.iteration_s is not None
    (phase,) = plan.phases
    estimate_s = running.estimate_s(outcome)
    return {
        "measured_s": outcome.iteration_s,
        "estimate_s": estimate_s,
        "error": outcome.iteration_s / estimate_s - 1,
        "formula_s": plan.decision.get("iteration_s"),
        "dilation": outcome.dilation,
        "nodes": sorted({instance.node for instance in phase.instances}),
        "instances": len(phase.instances),
        "codecs": sorted({instance.codec for instance in phase.instances}),
    }


def main() -> None:
    """Run all plans and print what came out."""
    quick = parser(__doc__, "hiertrain and hybrid at one bandwidth").parse_args().quick
    rows = []
    wheres = [(BANDWIDTHS[-1], False)] if quick else itertools.product(BANDWIDTHS, (False, True))
    for bandwidths, private in wheres:
        where = cluster(*bandwidths, private=private)
        profile = pt.profile(MODEL, cluster=where)
        for strategy in QUICK_STRATEGIES if quick else STRATEGIES:
            try:
                plan = pt.plan(strategy, profile=profile, cluster=where, batch=BATCH)
            except pt.Infeasible:  # JALAD's raw data goes to the edge server, or to the cloud
                continue
            found = {"strategy": strategy, "mbps": bandwidths, "private": private, **row(plan)}
            progress(f"{strategy} at {bandwidths}: {found['error']:+.1%} ({found['nodes']})")
            rows.append(found)
    errors = [abs(each["error"]) for each in rows]
    print_result({"rows": rows, "median": statistics.median(errors), "worst": max(errors)})


if __name__ == "__main__":
    main()
