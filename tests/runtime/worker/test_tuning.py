"""A process keeps the memory that it frees, if told to."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_LEFT = """
import ctypes
import psutil
from palmette.runtime.worker.tuning import keep_freed_memory

library, own = ctypes.CDLL(None), psutil.Process()
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
{keep}
before = own.memory_info().rss
block = library.malloc(20_000_000)
ctypes.memset(block, 1, 20_000_000)
library.free(block)
print(own.memory_info().rss - before)
"""


def _left(keep: str) -> int:
    """How many bytes more a process holds after 20 MB came and went."""
    done = subprocess.run(
        [sys.executable, "-c", _LEFT.format(keep=keep)], capture_output=True, text=True, check=True, timeout=120
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
@pytest.mark.slow
def test_freed_memory_is_kept() -> None:
    assert _left("keep_freed_memory()") > 19_000_000
    assert _left("") < 1_000_000
