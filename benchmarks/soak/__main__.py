"""Random faults until the time is up, as JSON: ``python -m benchmarks.soak`` from the project's root."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.soak.faults import ANYWHERE, IN_NAMESPACES, LOCKED
from benchmarks.soak.runs import ITERATIONS, TREES, Soaked
from palmette.errors import InputError
from palmette.testbed import iproute

DISK = "48m"
MINUTES, QUICK_MINUTES = 10.0, 0.1
QUICK_SEED = 1  # it begins with a killed worker


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
        progress(str(rows[-1]))
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
    options = parser(__doc__, "one or two runs, without namespaces")
    options.add_argument("--minutes", type=float, help="default: 10")
    options.add_argument("--seed", type=int, help="default: 0")
    options.add_argument("--testbed", choices=["namespaces", "none"], help="default: namespaces where possible")
    given = options.parse_args()
    minutes = given.minutes or (QUICK_MINUTES if given.quick else MINUTES)
    where = given.testbed or ("none" if given.quick else testbed())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ["OMP_NUM_THREADS"] = "1"
    seed = (QUICK_SEED if given.quick else 0) if given.seed is None else given.seed
    print_result(soak(minutes, seed, where))


if __name__ == "__main__":
    main()
