"""Whether workers keep memory that they should give back, as JSON: ``python -m benchmarks.leak`` from the root.

LeNet-5 on three nodes, HierTrain-like: samples, activations, gradients and averages all travel. The resident memory of
every worker and of the engine is read every few iterations; after the first 200 it has to stay where it is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.command import parser, print_result
from benchmarks.leak.cases import job
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.training.job import Job, ProgressUpdate
from palmette.runtime.training.loop import Training

WARM = 200
EVERY = 20
ITERATIONS, QUICK_ITERATIONS = 2000, 300


class Watched(Training):
    """A training whose processes are watched."""

    def __init__(self, given: Job) -> None:
        super().__init__(replace(given, start_crew=self._hired), self._look)
        self._pids: dict[str, int] = {"engine": os.getpid()}
        self.resident: dict[str, dict[int, int]] = {}

    def _hired(self, *given: Any) -> ProcessCrew:
        crew = ProcessCrew(*given)
        self._pids |= crew.pids
        return crew

    def _look(self, update: ProgressUpdate) -> None:
        if update.iteration % EVERY == 0 and update.evaluation is None:
            for name, pid in self._pids.items():
                self.resident.setdefault(name, {})[update.iteration] = resident_bytes(pid)


def resident_bytes(pid: int) -> int:
    """The memory of a process that is in RAM."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(resident: dict[int, int]) -> dict[str, Any]:
    """Memory after the warm-up, and how much more it was later at the most."""
    base = resident[min(k for k in resident if k >= WARM)]
    later = [size for k, size in resident.items() if k >= WARM]
    return {
        f"after_{WARM}_mib": round(base / 2**20, 1),
        "end_mib": round(later[-1] / 2**20, 1),
        "growth_at_most": round(max(later) / base - 1, 4),
        "least": round(min(later) / base - 1, 4),
    }


def main() -> None:
    """Print the memory of all."""
    options = parser(__doc__, f"{QUICK_ITERATIONS} iterations")
    options.add_argument("--iterations", type=int, help=f"default: {ITERATIONS}")
    given = options.parse_args()
    iterations = given.iterations or (QUICK_ITERATIONS if given.quick else ITERATIONS)
    with TemporaryDirectory() as folder:
        watched = Watched(job(Path(folder), iterations))
        watched.run()
    found = {name: growth(resident) for name, resident in watched.resident.items()}
    print_result({"iterations": iterations, "processes": found})


if __name__ == "__main__":
    main()
