"""What becomes of memory that a training process frees.

Every iteration frees tensors that the next one allocates again. The C library gives such memory back to the system when
it happens to lie at the top of the heap, and takes it again page by page: a fifth of an iteration of a small network,
or nothing, as chance has it.
"""

from __future__ import annotations

import ctypes

# Of glibc's malloc.h, for mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = 1 << 30
_LARGEST_IN_HEAP = 32 << 20  # glibc takes no more


def keep_freed_memory() -> None:
    """Let this process keep up to a gigabyte that it has freed; where the C library has no such setting, nothing."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_IN_HEAP)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
