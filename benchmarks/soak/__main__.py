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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any

from benchmarks.command import parser, print_result, progress
from benchmarks.home_networks import why_no_networks
from benchmarks.power_cut.disk import unmount, why_not
from benchmarks.soak.faults import ANYWHERE, AT_HUB, BEHIND_NAT, IN_NAMESPACES, LOCKED
from benchmarks.soak.hub_place import HubPlace
from benchmarks.soak.power_cuts import power_cut
from benchmarks.soak.runs import ITERATIONS, TREES, Soaked
from palmette.errors import InputError
from palmette.testbed import iproute

DISK = "48m"
MINUTES, QUICK_MINUTES = 10.0, 0.1
QUICK_SEED = 1  # it begins with a killed worker
KINDS = ("local", "hub", "power")
"""Workers on this machine, workers at a hub, and a machine that loses its power."""


def testbed() -> str:
    """Namespaces where they can be made."""
    try:
        iproute.require_namespaces()
    except InputError:
        return "none"
    return "namespaces"


def kinds_here() -> list[str]:
    """The kinds of runs that can be had here."""
    return [kind for kind in KINDS if kind != "power" or why_not() is None]


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
                unmount(Path(folder))


@contextmanager
def own_temporary_folder() -> Iterator[Path]:
    """A folder for temporary files of this process and its children, where what they leave behind can be seen."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        before = os.environ.get("TMPDIR")
        get_temp_dir()  # multiprocessing removes its own when this process ends, which is later
        os.environ["TMPDIR"], tempfile.tempdir = folder, folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = None
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


class Rounds:
    """Runs one after the other, each somewhere else and with another fault."""

    def __init__(self, seed: int, where: str, kinds: Sequence[str], hub: HubPlace | None) -> None:
        self._draw, self._where, self._kinds, self._hub = random.Random(seed), where, kinds, hub
        self._executed = {"local": self._local, "hub": self._at_hub, "power": self._power_cut}

    def next(self) -> dict[str, Any]:
        """What came of one more run."""
        tree, at = self._draw.choice(list(TREES)), self._draw.randrange(5, ITERATIONS // 2)
        row = self._executed[self._draw.choice(self._kinds)](tree, at)
        return {"tree": tree, "at": at, **row}

    def _local(self, tree: str, at: int) -> dict[str, Any]:
        transport, spaces = self._draw.choice(["gloo", "tls"]), self._where == "namespaces"
        faults = ANYWHERE | (IN_NAMESPACES | (LOCKED if transport == "tls" else {}) if spaces else {})
        fault = self._draw.choice(list(faults))
        how = {"testbed": self._where, "dilation": 1.0 if spaces else None, "transport": transport}
        with disk(spaces) as folder:
            found = Soaked(folder, tree, how).run(faults[fault], at)
        return {"on": f"local, {transport}", "fault": fault, **found}

    def _at_hub(self, tree: str, at: int) -> dict[str, Any]:
        assert self._hub is not None, "it is only chosen where there is one"
        faults = AT_HUB | (BEHIND_NAT if self._hub.networks else {})
        fault = self._draw.choice(list(faults))
        with disk(False) as folder:
            found = Soaked(folder, tree, self._hub.request, self._hub).run(faults[fault], at)
        self._hub.mend()
        return {"on": "hub, NAT" if self._hub.networks else "hub", "fault": fault, **found}

    def _power_cut(self, tree: str, at: int) -> dict[str, Any]:
        return {"on": "local, gloo", "fault": "cut the power", **power_cut(tree, at)}


def soak(minutes: float, seed: int, where: str, kinds: Sequence[str]) -> dict[str, Any]:
    """Run after run, each with its fault."""
    until = time.monotonic() + 60 * minutes
    nat = where == "namespaces" and why_no_networks("nft") is None
    rows: list[dict[str, Any]] = []
    with own_temporary_folder() as folder, ExitStack() as stack:
        hub = stack.enter_context(HubPlace(folder, nat=nat)) if "hub" in kinds else None
        rounds = Rounds(seed, where, kinds, hub)
        while time.monotonic() < until:
            rows.append(rounds.next())
            progress(str(rows[-1]))
        workers_left = 0 if hub is None else hub.end()
        stack.close()
        remains = sorted(path.name for path in folder.glob("palmette*"))
    return {
        "minutes": minutes,
        "seed": seed,
        "testbed": where,
        "runs": len(rows),
        "on": dict(Counter(row["on"] for row in rows)),
        "faults": dict(Counter(row["fault"] for row in rows)),
        "changes_of_plan": sum(row["changes"] for row in rows),
        "ended_well": sum(row["ended"] == "done" for row in rows),
        "weights_right": sum(row["weights_off"] <= 1e-10 for row in rows),
        "processes_left": sum(row["left"] for row in rows) + workers_left,
        "namespaces_left": sum(row["namespaces_left"] for row in rows),
        "temporary_files_left": remains,
        "lost_iterations_at_most": max(row["lost_iterations"] for row in rows),
        "a_kill_noticed_s": _spread(rows, "noticed_s", "kill"),
        "silence_noticed_s": _spread(rows, "noticed_s", "freeze", "cut", "pull"),
        "revocation_noticed_s": _spread(rows, "noticed_s", "revoke"),
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
    options = parser(__doc__, "one or two runs on this machine, without namespaces")
    options.add_argument("--minutes", type=float, help="default: 10")
    options.add_argument("--seed", type=int, help="default: 0")
    options.add_argument("--testbed", choices=["namespaces", "none"], help="default: namespaces where possible")
    options.add_argument("--on", nargs="+", choices=KINDS, help="default: all that can be had; local with --quick")
    given = options.parse_args()
    minutes = given.minutes or (QUICK_MINUTES if given.quick else MINUTES)
    where = given.testbed or ("none" if given.quick else testbed())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ["OMP_NUM_THREADS"] = "1"
    seed = (QUICK_SEED if given.quick else 0) if given.seed is None else given.seed
    print_result(soak(minutes, seed, where, given.on or (["local"] if given.quick else kinds_here())))


if __name__ == "__main__":
    main()
