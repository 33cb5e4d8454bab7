"""Random faults until the time is up, as JSON: ``python -m benchmarks.soak`` from the project's root."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.soak.faults import FAULTS
from benchmarks.soak.runs import ITERATIONS, TREES, Soaked


def soak(minutes: float, seed: int) -> dict[str, Any]:
    """Run after run, each with its fault."""
    draw = random.Random(seed)
    until = time.monotonic() + 60 * minutes
    rows: list[dict[str, Any]] = []
    while time.monotonic() < until:
        tree, fault, at = draw.choice(list(TREES)), draw.choice(list(FAULTS)), draw.randrange(5, ITERATIONS // 2)
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            rows.append({"tree": tree, "fault": fault, "at": at, **Soaked(Path(folder), tree).run(FAULTS[fault], at)})
    recovered = [row["recovery_s"] for row in rows if row["recovery_s"] is not None]
    return {
        "minutes": minutes,
        "seed": seed,
        "runs": len(rows),
        "faults": dict(Counter(row["fault"] for row in rows)),
        "changes_of_plan": sum(row["changes"] for row in rows),
        "ended_well": sum(row["ended"] == "done" for row in rows),
        "weights_right": sum(row["weights_off"] <= 1e-10 for row in rows),
        "processes_left": sum(row["left"] for row in rows),
        "lost_iterations_at_most": max(row["lost_iterations"] for row in rows),
        "recovery_s": _spread(recovered),
        "wrong": [row for row in rows if row["ended"] != "done" or row["weights_off"] > 1e-10 or row["left"]],
    }


def _spread(seconds: list[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    return {"median": round(statistics.median(seconds), 2), "most": round(max(seconds), 2)}


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ["OMP_NUM_THREADS"] = "1"
    print(json.dumps(soak(given.minutes, given.seed), indent=1))


if __name__ == "__main__":
    main()
