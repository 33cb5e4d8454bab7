"""Settings of a process that trains: threads and memory."""

from __future__ import annotations

import ctypes
import os
import sys

import torch

# From glibc's malloc.h, for mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = 1 << 30
_LARGEST_IN_HEAP = 32 << 20  # glibc's maximum
_TURN_S = 0.0005


def tune_worker() -> None:
    """Set up a worker's process: one thread for each call until it knows its node's number, freed memory kept, fast
    switching between threads.

    Otherwise a thread whose message has arrived may wait Python's default of 5 ms for one that computes.
    """
    torch.set_num_threads(1)
    sys.setswitchinterval(_TURN_S)
    keep_freed_memory()


def use_threads(count: int | None) -> None:
    """Let a call of a layer use so many threads, or as many as this process may use cores."""
    torch.set_num_threads(available_cores() if count is None else count)


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Let this process keep up to 1 GiB of freed memory; does nothing if the C library has no such setting.

    Every iteration frees tensors that the next one allocates again. The C library returns such memory to the system
    when it happens to be at the top of the heap, and requests it again page by page: a fifth of an iteration of a small
    network, or nothing, depending on chance.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_IN_HEAP)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
