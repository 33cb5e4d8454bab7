"""Random faults until the time is up, as JSON: ``python -m benchmarks.soak`` from the project's root."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.soak.faults import ANYWHERE, IN_NAMESPACES, LOCKED
from benchmarks.soak.runs import ITERATIONS, TREES, Soaked
from palmette.errors import InputError
from palmette.testbed import iproute

DISK = "48m"


def testbed() -> str:
    """Namespaces where they can be made."""
    try:
        iproute.require_namespaces()
    except InputError:
        return "none"
    return "namespaces"


@contextmanager
def disk(own: bool) -> Iterator[Path]:
    """A folder, on a small disk of its own where that may be had."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        if own:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "soak", folder], check=True)
        try:
            yield Path(folder)
        finally:
            if own:
                subprocess.run(["umount", folder], check=True)


def soak(minutes: float, seed: int, where: str) -> dict[str, Any]:
    """Run after run, each with its fault."""
    draw = random.Random(seed)
    until = time.monotonic() + 60 * minutes
    rows: list[dict[str, Any]] = []
    while time.monotonic() < until:
        tree, transport = draw.choice(list(TREES)), draw.choice(["gloo", "tls"])
        faults = ANYWHERE | (IN_NAMESPACES | (LOCKED if transport == "tls" else {}) if where == "namespaces" else {})
        fault, at = draw.choice(list(faults)), draw.randrange(5, ITERATIONS // 2)
        with disk(where == "namespaces") as folder:
            found = Soaked(folder, tree, where, transport).run(faults[fault], at)
        rows.append({"tree": tree, "transport": transport, "fault": fault, "at": at, **found})
        print(rows[-1], file=sys.stderr)
    return {
        "minutes": minutes,
        "seed": seed,
        "testbed": where,
        "runs": len(rows),
        "faults": dict(Counter(row["fault"] for row in rows)),
        "changes_of_plan": sum(row["changes"] for row in rows),
        "ended_well": sum(row["ended"] == "done" for row in rows),
        "weights_right": sum(row["weights_off"] <= 1e-10 for row in rows),
        "processes_left": sum(row["left"] for row in rows),
        "namespaces_left": sum(row["namespaces_left"] for row in rows),
        "lost_iterations_at_most": max(row["lost_iterations"] for row in rows),
        "a_kill_noticed_s": _spread(rows, "noticed_s", "kill"),
        "silence_noticed_s": _spread(rows, "noticed_s", "freeze", "cut"),
        "recovery_s": _spread(rows, "recovery_s"),
        "wrong": [row for row in rows if _wrong(row)],
    }


def _wrong(row: dict[str, Any]) -> bool:
    return bool(row["ended"] != "done" or row["weights_off"] > 1e-10 or row["left"] or row["namespaces_left"])


def _spread(rows: list[dict[str, Any]], field: str, *faults: str) -> dict[str, float] | None:
    """Median and most of what was measured under faults that begin with these words."""
    seconds = [row[field] for row in rows if row[field] is not None and row["fault"].startswith(faults or "")]
    return {"median": round(statistics.median(seconds), 2), "most": round(max(seconds), 2)} if seconds else None


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--testbed", choices=["namespaces", "none"], default=testbed())
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ["OMP_NUM_THREADS"] = "1"
    print(json.dumps(soak(given.minutes, given.seed, given.testbed), indent=1))


if __name__ == "__main__":
    main()
