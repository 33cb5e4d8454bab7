"""How far the estimated iteration time is from the measured one, on the testbeds, as JSON.

    python -m benchmarks.fidelity [--testbed paced --testbed namespaces] [--model lenet5] [--bandwidth 5] [--quick]
    python -m benchmarks.fidelity --deliveries [--transport tls]
    python -m benchmarks.fidelity --async
    python -m benchmarks.fidelity --traces [--trace FILE]
    python -m benchmarks.fidelity --loaded --load 4
    python -m benchmarks.fidelity --differing
    python -m benchmarks.fidelity --windows
    python -m benchmarks.fidelity --orders

A row for each case, and the median and worst error for each testbed.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any, get_args

from benchmarks.command import need_namespaces, parser, print_result, progress
from benchmarks.fidelity import asynchronous
from benchmarks.fidelity.cases import BATCHES, cases
from benchmarks.fidelity.deliveries import delivery_cases, delivery_rows
from benchmarks.fidelity.differing import differing_cases
from benchmarks.fidelity.loaded import load, loaded_cases
from benchmarks.fidelity.orders import kept_bytes, order_cases
from benchmarks.fidelity.traces import trace_rows
from benchmarks.fidelity.windows import EVERY, WINDOWS, window_cases
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.runtime.options import Options
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Order, Plan
from palmette.spec.profile import Profile

ITERATIONS = 6
LOADED_ITERATIONS = 12


def measured(
    plan: Plan,
    profile: Profile,
    where: Cluster,
    testbed: str,
    iterations: int,
    *,
    freeze: tuple[str, ...] = (),
    dilation: float | None = None,
) -> dict[str, Any]:
    """Run a case; returns measured and estimated iteration time and their error."""
    options = Options(seed=1, lr=0.001, freeze=freeze)
    request = Request(iterations=iterations, testbed=testbed, replan=False, dilation=dilation, options=options)
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
        "widened": [each.dilation for each in outcome.dilation_increases],
        "load_average": os.getloadavg()[0],
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and worst absolute error."""
    errors = [abs(row["error"]) for row in rows if "error" in row]
    return {"cases": len(rows), "median": statistics.median(errors), "worst": max(errors)} if errors else {"cases": 0}


def delivery_summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and worst absolute error for each way of delivery, and of the bytes of samples."""
    found = {way: summary([row for row in rows if row["delivery"] == way]) for way in {row["delivery"] for row in rows}}
    worst = max((abs(row["bytes_error"]) for row in rows), default=None)
    return {"all": summary(rows), **dict(sorted(found.items())), "worst_bytes_error": worst}


def differences(testbeds: list[str], busy: int) -> None:
    """Run the cases that differ on purpose, print what came out, and fail where a testbed does not show it."""
    rows = []
    for testbed in testbeds:
        for case in differing_cases():
            with load(busy):
                found = measured(case.plan, case.profile, case.cluster, testbed, ITERATIONS, freeze=case.freeze)
            rows.append({"testbed": testbed, "case": case.name, **found, "shown": case.shown(found["error"])})
            progress(f"{testbed} {case.name}: {found['error']:+.1%}, shown: {rows[-1]['shown']}")
    print_result({"rows": rows})
    hidden = [f"{row['testbed']}: {row['case']}" for row in rows if not row["shown"]]
    if hidden:
        sys.exit(f"not shown: {'; '.join(hidden)}")


def main() -> None:
    """Run all cases and print what came out."""
    options = parser(__doc__, "one bandwidth; LeNet-5 on the paced testbed unless options say otherwise")
    options.add_argument("--testbed", action="append", choices=["paced", "namespaces"], help="default: both")
    options.add_argument("--model", action="append", choices=list(BATCHES), help="default: all")
    options.add_argument("--bandwidth", action="append", type=float, help="in Mbit/s")
    options.add_argument("--deliveries", action="store_true", help="only samples that are kept, streamed or sent ahead")
    options.add_argument("--async", action="store_true", dest="asynchronous", help="only workers of a parameter server")
    options.add_argument("--traces", action="store_true", help="only links whose bandwidth changes")
    options.add_argument("--trace", action="append", type=Path, help="of --traces: a CSV file instead of made ones")
    options.add_argument("--transport", choices=["gloo", "tls"], default="gloo", help="of --deliveries")
    options.add_argument("--loaded", action="store_true", help="the cases for a busy machine instead")
    options.add_argument("--differing", action="store_true", help="the cases that differ on purpose instead")
    options.add_argument("--windows", action="store_true", help="only replicas that take some steps apart")
    options.add_argument("--orders", action="store_true", help="only microbatches in every order, with their memory")
    options.add_argument("--dilation", type=float, help="of trees, windows and orders; default: as in every run")
    options.add_argument("--load", type=int, default=0, help="processes that compute all the time beside")
    given = options.parse_args()
    testbeds = given.testbed or (["paced"] if given.quick else ["paced", "namespaces"])
    if "namespaces" in testbeds:
        need_namespaces()
    if given.differing:
        differences(testbeds, given.load)
        return
    began = time.monotonic()
    rows = all_rows(given, testbeds)
    print_result({"seconds": time.monotonic() - began, "rows": rows, **by_testbed(testbeds, rows)})


def all_rows(given: Namespace, testbeds: list[str]) -> list[dict[str, Any]]:
    """The kinds of cases that were asked for; without a choice all but those for a busy machine."""
    if given.loaded:
        return tree_rows(given, testbeds)
    kinds = {"deliveries": deliveries, "windows": window_rows, "asynchronous": async_rows, "traces": varying_rows}
    kinds |= {"orders": order_rows}
    chosen = [kind for name, kind in kinds.items() if getattr(given, name)]
    return [row for kind in chosen or (tree_rows, *kinds.values()) for row in kind(given, testbeds)]


def varying_rows(given: Namespace, testbeds: list[str]) -> list[dict[str, Any]]:
    """Links whose bandwidth changes."""
    rows = [row for testbed in testbeds for row in trace_rows(given.trace or [], testbed, quick=given.quick)]
    for row in rows:
        told(row, "all iterations")
    return rows


def tree_rows(given: Namespace, testbeds: list[str]) -> list[dict[str, Any]]:
    """The ordinary cases, or those for a busy machine."""
    models = given.model or (["lenet5"] if given.quick else list(BATCHES))
    many = LOADED_ITERATIONS if given.loaded else ITERATIONS
    asked = list(loaded_cases() if given.loaded else cases(models, given.bandwidth or [], given.quick))
    return case_rows(given, testbeds, asked, many)


def window_rows(given: Namespace, testbeds: list[str]) -> list[dict[str, Any]]:
    """Replicas that train apart between exchanges."""
    return case_rows(given, testbeds, list(window_cases(given.bandwidth or [], given.quick)), WINDOWS * EVERY)


def order_rows(given: Namespace, testbeds: list[str]) -> list[dict[str, Any]]:
    """A pipeline in every order, with the bytes that its nodes keep."""
    asked = list(order_cases(("zero-bubble",) if given.quick else get_args(Order)))
    kept = {order: kept_bytes(made, profile, where) for _, order, _, made, profile, where in asked}
    return [row | {"kept_bytes": kept[row["tree"]]} for row in case_rows(given, testbeds, asked, ITERATIONS)]


def async_rows(given: Namespace, testbeds: list[str]) -> list[dict[str, Any]]:
    """Workers of a parameter server."""
    asked = list(asynchronous.asynchronous_cases(given.bandwidth or [], given.quick))
    return case_rows(given, testbeds, asked, asynchronous.ITERATIONS)


def case_rows(given: Namespace, testbeds: list[str], asked: list[asynchronous.Case], many: int) -> list[dict[str, Any]]:
    """So many iterations of each case on each testbed."""
    rows = []
    for testbed in testbeds:
        for model, tree, bandwidth, made, profile, where in asked:
            row = {"testbed": testbed, "model": model, "tree": tree, "bandwidth_mbit": bandwidth}
            with load(given.load):
                row |= measured(made, profile, where, testbed, many, dilation=given.dilation)
            told(row, "each iteration")
            rows.append(row)
    return rows


def deliveries(given: Namespace, testbeds: list[str]) -> list[dict[str, Any]]:
    """The cases in which samples are kept, streamed or sent ahead."""
    rows = []
    for testbed in testbeds:
        for case in delivery_cases(given.bandwidth or [], given.quick):
            with load(given.load):
                found = delivery_rows(case, testbed, given.transport)
            for row in found:
                told(row, f"{row['delivery']}, {row['epochs']}; bytes {row['bytes_error']:+.1%}")
            rows += found
    return rows


def told(row: dict[str, Any], more: str) -> None:
    """Say what came out."""
    where = f"{row['testbed']} {row['model']} {row['tree']} {row['bandwidth_mbit']:g} Mbit/s, {more}"
    progress(f"{where}: {row['error']:+.1%} of {row['estimated_s'] * 1e3:.1f} ms, dilation {row['dilation']:g}")


def by_testbed(testbeds: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The errors on each testbed, apart for trees whose transfers share a link."""
    shared, found = ("hiertrain-like", "three-replicas"), {}
    for testbed in testbeds:
        own = [row for row in rows if row["testbed"] == testbed]
        found[testbed] = {
            "all": summary(own),
            "links to themselves": summary([row for row in own if row["tree"] not in shared]),
            "links shared": summary([row for row in own if row["tree"] in shared]),
            "asynchronous": summary([row for row in own if row["tree"].startswith("async")]),
            "traces": summary([row for row in own if row["tree"].startswith("trace")]),
            "deliveries": delivery_summary([row for row in own if "delivery" in row]),
        }
    return found


if __name__ == "__main__":
    main()
