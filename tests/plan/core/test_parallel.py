"""Jobs in processes of their own: results in order, failures kept apart."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from typing import Any, NoReturn

import pytest

from palmette.errors import Fault, Infeasible, InputError, RunError, too_late
from palmette.plan.core import parallel
from palmette.plan.core.parallel import run_parallel


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever tests before have left in this process."""
    monkeypatch.setattr(parallel, "_may_fork", lambda: True)


def refuse(error: Exception) -> NoReturn:
    raise error


def test_results_come_in_the_order_of_the_jobs() -> None:
    jobs = [partial(lambda k: (time.sleep(0.05 * (3 - k)), k)[1], k) for k in range(4)]
    assert [done.result for done in run_parallel(jobs)] == [0, 1, 2, 3]


def test_nothing_to_do_is_done_at_once() -> None:
    assert run_parallel([]) == []


def test_beside_a_hub_jobs_are_done_here_and_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    over = threading.Event()
    polling = threading.Thread(target=over.wait, name="Thread-1 (_poll_wrapper)")
    polling.start()
    try:
        assert parallel.parallel_jobs() == 1
        here, failed = run_parallel([os.getpid, partial(refuse, ZeroDivisionError("of what"))])
    finally:
        over.set()
        polling.join()
    assert here.result == os.getpid()
    assert str(failed.error) == "it failed: ZeroDivisionError: of what"


def test_each_job_has_a_process_of_its_own() -> None:
    pids = [done.result for done in run_parallel([os.getpid] * 3)]
    assert len({os.getpid(), *pids}) == 4


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            InputError([Fault("a", 1, "expected 2", "f"), Fault("b", None, "expected")]),
            InputError,
            "f: a: 1: expected 2\nb: ",
        ),
        (Infeasible("no"), Infeasible, "no"),
        (ZeroDivisionError("of what"), RunError, "it failed: ZeroDivisionError: of what"),
        (ValueError("two\nlines"), RunError, "it failed: ValueError: two\\nlines"),
    ],
)
def test_an_error_keeps_its_kind_and_the_others_go_on(error: Exception, kind: type, text: str) -> None:
    jobs: list[Any] = [partial(refuse, error), lambda: "fine"]
    failed, fine = run_parallel(jobs)
    assert type(failed.error) is kind
    assert str(failed.error).startswith(text)
    assert fine.result == "fine"


def test_the_closest_value_comes_along() -> None:
    late = too_late("deadline_s", 1.0, 2.5)
    (failed,) = run_parallel([partial(refuse, late)])
    assert isinstance(failed.error, Infeasible)
    assert str(failed.error) == "deadline_s: 1 s: cannot be met; the least that can be had is 2.5 s"
    assert (failed.error.message.parts, failed.error.least_s) == (late.message.parts, 2.5)


def test_a_result_is_unwrapped_and_an_error_is_raised() -> None:
    fine, failed = run_parallel([lambda: 1, partial(refuse, Infeasible("no"))])
    assert fine.unwrap() == 1
    with pytest.raises(Infeasible, match="no"):
        failed.unwrap()


def test_a_job_that_dies_is_told() -> None:
    died, fine = run_parallel([lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: 1])
    assert str(died.error) == "it failed: its process died with exit code -9"
    assert fine.result == 1


def test_a_result_may_be_large() -> None:
    (done,) = run_parallel([lambda: b"x" * 5_000_000])
    assert done.result is not None
    assert len(done.result) == 5_000_000


def test_it_is_told_how_many_jobs_are_done() -> None:
    told: list[int] = []
    run_parallel([lambda: 1] * 3, told.append)
    assert told == [1, 2, 3]


def test_ctrl_c_is_for_the_parent_alone() -> None:
    def hears() -> bool:
        return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    assert [each.unwrap() for each in run_parallel([hears, hears])] == [False, False]
    assert hears()
