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
    """Whatever a test starts has ended when it is over, but for the progress bars of torch's FLOP counter."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 5
    while (left := _started_since(before)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left


def _started_since(before: set[threading.Thread]) -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t not in before and t.name != "tqdm_monitor"]
