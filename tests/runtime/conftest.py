import threading
import time
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread_a_worker() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Whatever a test starts has ended when it is over, but for those that torch's FLOP counter and gRPC keep."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 5
    while (left := _started_since(before)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left


def _started_since(before: set[threading.Thread]) -> list[threading.Thread]:
    return [
        t
        for t in threading.enumerate()
        if t not in before and not ("tqdm_monitor" in t.name or "_poll_wrapper" in t.name)
    ]
