"""What a run costs beside a plain PyTorch loop, as JSON: ``python -m benchmarks.overhead`` from the project's root.

A worker and a plain loop, each in a process of its own with one thread, take turns: some iterations of one, as many of
the other, over and over. So both see the same machine, however busy it is. CPU seconds are those of the worker and of
the plain loop: they hardly depend on who else is there. How often a plain loop has to ask the system for memory that it
has just given back is left to chance, and decides over up to a fifth (``palmette.runtime.worker.tuning``).
So there is another that keeps what it frees, as workers do.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.command import parser, print_result
from benchmarks.overhead import plain
from benchmarks.overhead.cases import Case, job
from palmette.runtime.engines.crew import Crew
from palmette.runtime.engines.forkserver import forkserver_context
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.sync.base import EngineSide
from palmette.runtime.training.job import Job
from palmette.runtime.training.loop import Training


class How(NamedTuple):
    """Pairs of processes of each kind, turns of a pair, and iterations a turn."""

    pairs: int
    turns: int
    iterations: int


CASES = {Case("lenet5", 64): How(4, 16, 50), Case("alexnet?size=64", 32): How(2, 12, 2)}
QUICK = {Case("lenet5", 64): How(1, 6, 10)}


class Turns(Training):
    """A training that takes turns with a plain loop."""

    def __init__(self, given: Job, pipe: Connection[Any, Any], how: How) -> None:
        super().__init__(replace(given, start_crew=self._hired), lambda _: None)
        self._pipe, (_, self._turns, self._many) = pipe, how
        self.ours_s: list[float] = []
        self.plain_s: list[float] = []
        self.ours_cpu_s: list[float] = []
        self.plain_cpu_s: list[float] = []

    def _go_through(self, side: EngineSide, number: int, crew: Crew) -> None:
        for turn in range(self._turns + 1):
            began, used_s = perf_counter(), self._cpu_s()
            at, end = turn * self._many, (turn + 1) * self._many
            while at < end:
                at = side.advance(at, end, lambda: False)
            self.ours_s.append(perf_counter() - began)
            self.ours_cpu_s.append(self._cpu_s() - used_s)
            self._pipe.send(self._many)
            wall_s, cpu_s = self._pipe.recv()
            self.plain_s.append(wall_s)
            self.plain_cpu_s.append(cpu_s)
        self._pipe.send(0)
        self.stop()
        for each in self.figures:
            del each[0]  # in the first turn much is done for the first time

    @property
    def figures(self) -> tuple[list[float], ...]:
        """Seconds of each turn, ours and the plain loop's, by the wall clock and in CPU time."""
        return self.ours_s, self.plain_s, self.ours_cpu_s, self.plain_cpu_s

    def _hired(self, *given: Any) -> ProcessCrew:
        self._crew = ProcessCrew(*given)
        return self._crew

    def _cpu_s(self) -> float:
        (pid,) = self._crew.pids.values()
        return cpu_s(pid)


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads of a process so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measured(case: Case, how: How) -> dict[str, Any]:
    """Throughput beside a loop as people write it, and beside one that keeps the memory it frees, pair about pair."""
    pairs = [[_taken(case, how, rollback) for rollback in (False, True)] for _ in range(how.pairs)]
    plain, keeping = (_figures(list(taken), how.iterations) for taken in zip(*pairs, strict=True))
    return {"batch": case.batch, **how._asdict(), **plain, "beside_a_loop_that_keeps_memory": keeping}


def _figures(taken: list[Turns], iterations: int) -> dict[str, Any]:
    ours_s, plain_s, ours_cpu_s, plain_cpu_s = (
        list(chain.from_iterable(turns_s)) for turns_s in zip(*(pair.figures for pair in taken), strict=True)
    )
    return {
        "throughput": ratios(plain_s, ours_s),
        "throughput_by_cpu_time": ratios(plain_cpu_s, ours_cpu_s),
        "of_each_pair": [ratios(pair.plain_s, pair.ours_s)["median"] for pair in taken],
        "iteration_s": round(statistics.median(ours_s) / iterations, 5),
        "plain_iteration_s": round(statistics.median(plain_s) / iterations, 5),
    }


def _taken(case: Case, how: How, rollback: bool) -> Turns:
    """A worker and a plain loop that have taken turns."""
    ours, theirs = forkserver_context().Pipe()
    process = forkserver_context().Process(target=plain.serve, args=(case, theirs, rollback), daemon=True)
    process.start()
    with TemporaryDirectory() as folder:
        taking = Turns(job(case, Path(folder), (how.turns + 1) * how.iterations), ours, how)
        taking.run()
    process.join()
    return taking


def ratios(plain_s: list[float], ours_s: list[float]) -> dict[str, Any]:
    """Our throughput as a part of the plain loop's, turn by turn."""
    low, middle, high = statistics.quantiles([a / b for a, b in zip(plain_s, ours_s, strict=True)], n=4)
    return {
        "median": round(middle, 3),
        "quartiles": [round(low, 3), round(high, 3)],
        "of_totals": round(sum(plain_s) / sum(ours_s), 3),
    }


def main() -> None:
    """Print all figures."""
    quick = parser(__doc__, "LeNet-5 only, a few turns").parse_args().quick
    print_result({case.model: measured(case, how) for case, how in (QUICK if quick else CASES).items()})


if __name__ == "__main__":
    main()
