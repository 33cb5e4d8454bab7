"""What TLS costs of an iteration beside gloo, as JSON: ``python -m benchmarks.tls`` from the project's root, as root.

Every tree is run over gloo and over TLS in turns, on namespaces with links of 100 Mbit/s, undilated unless told; the
ratio is taken turn by turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.fidelity.run import BATCHES, cluster, plan, trees
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.measure.profiling import profile_network
from palmette.runtime.options import Options
from palmette.runtime.training.job import Outcome
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.zoo.models import load_network

MODEL = "lenet5"
BANDWIDTH_MBIT = 100.0
ITERATIONS = 12
TRANSPORTS = ("gloo", "tls")


def ran(made: Plan, profile: Profile, where: Cluster, **request: Any) -> Outcome:
    """What a run comes to."""
    asked = Request(iterations=ITERATIONS, options=Options(seed=1, lr=0.001), **request)
    with tempfile.TemporaryDirectory() as folder:
        return prepare(made, profile, where, asked, Path(folder)).run(lambda _: None, lambda _: None)


def measured(made: Plan, profile: Profile, where: Cluster, turns: int, **request: Any) -> dict[str, Any]:
    """Both transports in turns."""
    taken_s: dict[str, list[float]] = {transport: [] for transport in TRANSPORTS}
    for _ in range(turns):
        for transport, found in taken_s.items():
            outcome = ran(made, profile, where, transport=transport, **request)
            assert outcome.iteration_s is not None
            found.append(outcome.iteration_s)
    ratios = [tls / gloo for gloo, tls in zip(*taken_s.values(), strict=True)]
    medians_s = {f"{transport}_s": round(statistics.median(found), 5) for transport, found in taken_s.items()}
    return {
        **medians_s,
        "ratio": round(statistics.median(ratios), 4),
        "ratios": [round(ratio, 4) for ratio in ratios],
    }


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--testbed", default="namespaces", choices=["paced", "namespaces", "none"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--dilation", type=float, default=1.0)
    parser.add_argument("--tree", action="append", help="such as split-in-two; all if not given")
    given = parser.parse_args()
    network, where = load_network(MODEL), cluster(BANDWIDTH_MBIT)
    profile = profile_network(network, where, [])
    rows: dict[str, Any] = {}
    for name, tree in trees(len(network.layers), BATCHES[MODEL]).items():
        if given.tree is None or name in given.tree:
            rows[name] = measured(
                plan(MODEL, tree), profile, where, given.turns, testbed=given.testbed, dilation=given.dilation
            )
            print(f"{name}: {rows[name]}", file=sys.stderr)
    worst = max(row["ratio"] for row in rows.values())
    print(
        json.dumps(
            {
                "testbed": given.testbed,
                "bandwidth_mbit": BANDWIDTH_MBIT,
                "dilation": given.dilation,
                "worst": worst,
                "trees": rows,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
