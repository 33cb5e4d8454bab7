"""Jobs in parallel, each in its own process: one that fails or dies does not affect the others.

Planning is pure Python, so threads would take turns. A process is forked: it starts at once with all the data of its
parent, and sends back nothing but its result. Beside a hub, whose gRPC thread holds locks that a forked process would
wait for without end, and beside a training, jobs are done here, one after the other.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing import connection, current_process, get_context
from typing import Any, Generic, NamedTuple, TypeVar

from palmette.errors import PalmetteError, RunError, one_line

T = TypeVar("T")
_GRPC_THREAD = "_poll_wrapper"
BESIDE_TRAINING = "change-monitor"
"""The name of a thread that plans beside a training, whose threads a forked process would lack."""
_FORK = get_context("fork")


class JobResult(NamedTuple, Generic[T]):
    """The result of a job, or why there is none."""

    result: T | None
    error: PalmetteError | None

    def unwrap(self) -> T:
        """The result; raises the error where there is none."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


def parallel_jobs() -> int:
    """How many jobs can run in parallel from here: a job of ``run_parallel`` itself has one core."""
    return 1 if current_process().daemon or not _may_fork() else len(os.sched_getaffinity(0))


def _may_fork() -> bool:
    beside_training = threading.current_thread().name == BESIDE_TRAINING
    return not beside_training and all(_GRPC_THREAD not in thread.name for thread in threading.enumerate())


def run_parallel(jobs: Sequence[Callable[[], T]], on_done: Callable[[int], None] | None = None) -> list[JobResult[T]]:
    """The result of each job, in their order; at most as many run at a time as there are cores.

    ``on_done`` is called with how many are done, each time one is.
    """
    tell = on_done or (lambda _many: None)
    if not _may_fork():
        found = []
        for job in jobs:
            found.append(JobResult(*_done(job)))
            tell(len(found))
        return found
    waiting, done = list(enumerate(jobs)), {}
    running: dict[connection.Connection, tuple[int, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                number, job = waiting.pop(0)
                running.update([_started(number, job)])
            for end in connection.wait(list(running)):
                number, process = running.pop(end)  # type: ignore[call-overload]
                done[number] = _received(end, process)
                tell(len(done))
    finally:
        for _, process in running.values():
            process.kill()
    return [done[number] for number in range(len(jobs))]


def _started(number: int, job: Callable[[], Any]) -> tuple[connection.Connection, tuple[int, Any]]:
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_work, args=(job, theirs), daemon=True)
    # Ctrl-C is for the parent, which ends its jobs and says so; one that has just been forked would say so, too.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()
    return ours, (number, process)


def _work(job: Callable[[], Any], end: connection.Connection) -> None:
    """Do a job and send its result, or the error that kept it from one."""
    end.send(_done(job))


def _done(job: Callable[[], Any]) -> tuple[Any, PalmetteError | None]:
    try:
        return job(), None
    except PalmetteError as error:
        return None, error
    except Exception as error:  # noqa: BLE001 -- a strategy with a bug must not keep the others from planning
        return None, RunError(f"it failed: {one_line(f'{type(error).__name__}: {error}')}")


def _received(end: Any, process: Any) -> JobResult[Any]:
    try:
        result, error = end.recv()
    except EOFError:
        process.join()
        result, error = None, RunError(f"it failed: its process died with exit code {process.exitcode}")
    process.join()
    end.close()
    return JobResult(result, error)
