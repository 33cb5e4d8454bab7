"""What TLS costs of an iteration beside gloo, as JSON: ``python -m benchmarks.tls`` from the project's root, as root.

Every tree is run over gloo and over TLS in turns, on namespaces with links of 100 Mbit/s, undilated unless told; the
ratio is taken turn by turn.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.command import need_namespaces, parser, print_result, progress
from benchmarks.fidelity.cases import BATCHES, cluster, plan, trees
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.measure.profiling import profile_network
from palmette.runtime.options import Options
from palmette.runtime.training.job import RunOutcome
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.zoo.models import load_network

MODEL = "lenet5"
BANDWIDTH_MBIT = 100.0
ITERATIONS = 12
QUICK_TREE = "split-in-two"
TRANSPORTS = ("gloo", "tls")


def ran(made: Plan, profile: Profile, where: Cluster, **request: Any) -> RunOutcome:
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
    options = parser(__doc__, f"one turn of {QUICK_TREE} on the paced testbed")
    options.add_argument("--testbed", choices=["paced", "namespaces", "none"], help="default: namespaces")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--dilation", type=float, default=1.0)
    options.add_argument("--tree", action="append", help="such as split-in-two; all if not given")
    given = options.parse_args()
    testbed = given.testbed or ("paced" if given.quick else "namespaces")
    chosen, turns = ([QUICK_TREE], 1) if given.quick else (given.tree, given.turns)
    if testbed == "namespaces":
        need_namespaces()
    network, where = load_network(MODEL), cluster(BANDWIDTH_MBIT)
    profile = profile_network(network, where, [])
    rows: dict[str, Any] = {}
    for name, tree in trees(len(network.layers), BATCHES[MODEL]).items():
        if chosen is None or name in chosen:
            rows[name] = measured(plan(MODEL, tree), profile, where, turns, testbed=testbed, dilation=given.dilation)
            progress(f"{name}: {rows[name]}")
    print_result(
        {
            "testbed": testbed,
            "bandwidth_mbit": BANDWIDTH_MBIT,
            "dilation": given.dilation,
            "worst": max(row["ratio"] for row in rows.values()),
            "trees": rows,
        }
    )


if __name__ == "__main__":
    main()
