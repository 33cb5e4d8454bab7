"""How far our estimates are from iterations that others measured, on their machines, as JSON.

    python -m benchmarks.others [--data FOLDER] [--plan FILE …] [--reserved "5 GB"]

Only published layer times, sizes and network coefficients go in. The folder is that of Sailor (SOSP 2025).
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.others.plans import Measured, measured_plan
from benchmarks.others.published import FOLDER, Published
from palmette.cost.evaluate import Evaluator
from palmette.spec.units import SIZE

OPTIMIZER = "adam"


def main() -> None:
    """Estimate every plan and print what came out."""
    options = parser(__doc__, "the mixed machines alone")
    options.add_argument("--data", type=Path, default=FOLDER, help=f"default: {FOLDER}")
    options.add_argument("--plan", type=Path, action="append", help="a plan of your own; default: all of the folder")
    options.add_argument("--reserved", default="0 B", help="what a framework takes of each GPU's memory; default 0 B")
    given = options.parse_args()
    if not (given.data / "plans").is_dir():
        sys.exit(f"{given.data} has no plans; expected the folder of the published measurements (--data)")
    published, reserved = Published(given.data), SIZE.parse(given.reserved)
    every = sorted(given.data.glob("plans/mit/*.json" if given.quick else "plans/*/*.json"))
    rows = [row(measured_plan(path, published, reserved)) for path in given.plan or every]
    groups = {each["plan"].split("/")[0] for each in rows}
    print_result({"rows": rows, **{name: summary(name, rows) for name in sorted(groups)}})


def row(plan: Measured) -> dict[str, Any]:
    """What was measured and estimated, and the errors."""
    evaluator = Evaluator(plan.profile, plan.cluster, OPTIMIZER)
    estimated_s = evaluator.price(plan.phase).iteration_s
    peak = max(size / plan.gpus[node] for node, size in evaluator.peak_bytes(plan.phase).items())
    found = {
        "plan": plan.name,
        "measured_s": plan.iteration_s,
        "estimated_s": estimated_s,
        "error": estimated_s / plan.iteration_s - 1,
        "measured_bytes": plan.peak_bytes,
        "estimated_bytes": peak,
        "memory_error": None if plan.peak_bytes is None else peak / plan.peak_bytes - 1,
    }
    memory = "" if found["memory_error"] is None else f", memory {found['memory_error']:+.1%}"
    progress(f"{plan.name}: {plan.iteration_s:.4g} s, {found['error']:+.1%}{memory}")
    return found


def summary(name: str, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Mean absolute errors of a folder of plans."""
    own = [each for each in rows if each["plan"].startswith(f"{name}/")]
    memory = [abs(each["memory_error"]) for each in own if each["memory_error"] is not None]
    return {
        "plans": len(own),
        "mean_error": statistics.fmean(abs(each["error"]) for each in own),
        "mean_memory_error": statistics.fmean(memory) if memory else 0.0,
    }


if __name__ == "__main__":
    main()
