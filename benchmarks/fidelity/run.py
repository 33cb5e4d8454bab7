"""How far the estimated iteration time is from the measured one, on the testbeds.

    python benchmarks/fidelity/run.py [--testbed paced --testbed namespaces] [--model lenet5] [--bandwidth 5] [--quick]
    python benchmarks/fidelity/run.py --loaded --load 4
    python benchmarks/fidelity/run.py --differing

Prints JSON: a row for each case, and the median and worst error for each testbed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.measure.profiling import profile_network
from palmette.runtime.options import Options
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

sys.path.insert(0, str(Path(__file__).parent))
from differing import differing_cases
from loaded import load, loaded_cases

BANDWIDTHS_MBIT = (1.5, 5.0, 20.0, 100.0)
# Whole replicas of AlexNet exchange 94 MB each way.
REPLICA_BANDWIDTHS_MBIT = {"lenet5": BANDWIDTHS_MBIT, "alexnet?size=32&classes=10": (50.0, 100.0)}
BATCHES = {"lenet5": 48, "alexnet?size=32&classes=10": 12}
ITERATIONS = 6
LOADED_ITERATIONS = 12

Tree = tuple[dict[str, int], list[tuple[str, tuple[int, int], str, str | None]]]


def trees(layers: int, batch: int) -> dict[str, Tree]:
    """Five trees: samples into instances, and instances as (id, layers, node, into)."""
    third, cut, deep = batch // 3, 2, 4
    return {
        "all-cloud": ({"A": batch}, [("A", (1, layers), "cloud", None)]),
        "split-in-two": ({"A": batch}, [("A", (1, cut), "phone", "B"), ("B", (cut + 1, layers), "server", None)]),
        "split-in-three": (
            {"A": batch},
            [
                ("A", (1, cut), "phone", "B"),
                ("B", (cut + 1, deep), "server", "C"),
                ("C", (deep + 1, layers), "cloud", None),
            ],
        ),
        "hiertrain-like": (
            {"S": third, "L": third, "O1": batch - 2 * third},
            [
                ("S", (1, cut), "phone", "O2"),
                ("L", (1, deep), "server", "O3"),
                ("O1", (1, cut), "cloud", "O2"),
                ("O2", (cut + 1, deep), "cloud", "O3"),
                ("O3", (deep + 1, layers), "cloud", None),
            ],
        ),
        "three-replicas": (
            {"A": third, "B": third, "C": batch - 2 * third},
            [(k, (1, layers), node, None) for k, node in zip("ABC", ("cloud", "server", "phone"), strict=True)],
        ),
    }


def cluster(bandwidth_mbit: float) -> Cluster:
    """Three tiers in a row; none of the nodes is much faster than one core of an ordinary machine."""
    return fill_hardware_defaults(
        Cluster.model_validate(
            {
                "nodes": {
                    "phone": {"tier": "device", "hardware": "raspberry-pi-4", "source": {"samples": 1500}},
                    "server": {"tier": "edge", "hardware": "nuc-i3-7100u-1"},
                    "cloud": {"tier": "cloud", "hardware": "nuc-i3-7100u-4"},
                },
                "links": [
                    {"between": ["phone", "server"], "bandwidth": f"{bandwidth_mbit} Mbit/s", "latency": "2 ms"},
                    {"between": ["server", "cloud"], "bandwidth": f"{bandwidth_mbit} Mbit/s", "latency": "5 ms"},
                ],
            }
        )
    )


def plan(model: str, tree: Tree) -> Plan:
    """A tree as a plan."""
    fed, instances = tree
    phase = Phase.model_validate(
        {
            "sources": [{"node": "phone", "samples": many, "into": into} for into, many in fed.items()],
            "instances": [{"id": i, "layers": run, "node": n, "into": into} for i, run, n, into in instances],
        }
    )
    return Plan(model=model, batch=sum(fed.values()), phases=(phase,))


def cases(
    models: list[str], bandwidths: list[float], quick: bool
) -> Iterator[tuple[str, str, float, Plan, Profile, Cluster]]:
    """Every network, tree and bandwidth, or only those asked for."""
    for model in models:
        network = load_network(model)
        profile = profile_network(network, cluster(5.0), [])
        for name, tree in trees(len(network.layers), BATCHES[model]).items():
            wanted = REPLICA_BANDWIDTHS_MBIT[model] if name == "three-replicas" else BANDWIDTHS_MBIT
            asked = [bandwidth for bandwidth in wanted if not bandwidths or bandwidth in bandwidths]
            for bandwidth in asked[1:2] if quick else asked:
                yield model, name, bandwidth, plan(model, tree), profile, cluster(bandwidth)


def measured(
    plan: Plan, profile: Profile, where: Cluster, testbed: str, iterations: int, *, freeze: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Run a case; returns measured and estimated iteration time and their error."""
    options = Options(seed=1, lr=0.001, freeze=freeze)
    request = Request(iterations=iterations, testbed=testbed, replan=False, options=options)
    with tempfile.TemporaryDirectory() as folder:
        running = prepare(plan, profile, where, request, Path(folder))
        outcome = running.run(lambda _: None, lambda _: None)
    assert outcome.iteration_s is not None
    estimate_s = running.estimate_s(outcome)
    return {
        "measured_s": outcome.iteration_s,
        "estimated_s": estimate_s,
        "error": outcome.iteration_s / estimate_s - 1,
        "dilation": outcome.dilation,
        "widened": [each.dilation for each in outcome.widened],
        "load_average": os.getloadavg()[0],
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and worst absolute error."""
    errors = [abs(row["error"]) for row in rows if "error" in row]
    return {"cases": len(rows), "median": statistics.median(errors), "worst": max(errors)} if errors else {"cases": 0}


def differences(testbeds: list[str], busy: int) -> None:
    """Run the cases that differ on purpose, print what came out, and fail where a testbed does not show it."""
    rows = []
    for testbed in testbeds:
        for case in differing_cases():
            with load(busy):
                found = measured(case.plan, case.profile, case.cluster, testbed, ITERATIONS, freeze=case.freeze)
            rows.append({"testbed": testbed, "case": case.name, **found, "shown": case.shown(found["error"])})
            print(f"{testbed} {case.name}: {found['error']:+.1%}, shown: {rows[-1]['shown']}", file=sys.stderr)
    print(json.dumps({"rows": rows}, indent=1))
    hidden = [f"{row['testbed']}: {row['case']}" for row in rows if not row["shown"]]
    if hidden:
        sys.exit(f"not shown: {'; '.join(hidden)}")


def main() -> None:
    """Run all cases and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--testbed", action="append", choices=["paced", "namespaces"])
    parser.add_argument("--model", action="append", choices=list(BATCHES))
    parser.add_argument("--bandwidth", action="append", type=float, help="in Mbit/s")
    parser.add_argument("--quick", action="store_true", help="one bandwidth only")
    parser.add_argument("--loaded", action="store_true", help="the cases for a busy machine instead")
    parser.add_argument("--differing", action="store_true", help="the cases that differ on purpose instead")
    parser.add_argument("--load", type=int, default=0, help="processes that compute all the time beside")
    given = parser.parse_args()
    if given.differing:
        differences(given.testbed or ["paced", "namespaces"], given.load)
        return
    rows: list[dict[str, Any]] = []
    began = time.monotonic()
    many = LOADED_ITERATIONS if given.loaded else ITERATIONS
    asked = list(
        loaded_cases() if given.loaded else cases(given.model or list(BATCHES), given.bandwidth or [], given.quick)
    )
    for testbed in given.testbed or ["paced", "namespaces"]:
        for model, tree, bandwidth, made, profile, where in asked:
            row = {"testbed": testbed, "model": model, "tree": tree, "bandwidth_mbit": bandwidth}
            with load(given.load):
                row |= measured(made, profile, where, testbed, many)
            found = f"{row['error']:+.1%} of {row['estimated_s'] * 1e3:.1f} ms, dilation {row['dilation']:g}"
            print(f"{testbed} {model} {tree} {bandwidth:g} Mbit/s: {found}", file=sys.stderr)
            rows.append(row)
    shared = ("hiertrain-like", "three-replicas")
    result: dict[str, Any] = {"seconds": time.monotonic() - began, "rows": rows}
    for testbed in given.testbed or ["paced", "namespaces"]:
        own = [row for row in rows if row["testbed"] == testbed]
        result[testbed] = {
            "all": summary(own),
            "links to themselves": summary([row for row in own if row["tree"] not in shared]),
            "links shared": summary([row for row in own if row["tree"] in shared]),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
