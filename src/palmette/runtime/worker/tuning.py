"""How a process that trains is set up."""

from __future__ import annotations

import ctypes
import sys

import torch

# Of glibc's malloc.h, for mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = 1 << 30
_LARGEST_IN_HEAP = 32 << 20  # glibc takes no more
_TURN_S = 0.0005


def tune_worker() -> None:
    """Set up a worker's process: one thread for each call, memory that is kept, and threads that soon have their turn.

    A thread whose message has arrived would else wait up to Python's five milliseconds for one that computes.
    """
    torch.set_num_threads(1)
    sys.setswitchinterval(_TURN_S)
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Let this process keep up to a gigabyte that it has freed; where the C library has no such setting, nothing.

    Every iteration frees tensors that the next one allocates again. The C library gives such memory back to the system
    when it happens to lie at the top of the heap, and takes it again page by page: a fifth of an iteration of a small
    network, or nothing, as chance has it.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_IN_HEAP)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
