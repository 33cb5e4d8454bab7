"""The server that workers are forked from."""

from __future__ import annotations

import subprocess
import sys

SHOW_BLOCKED = """
from multiprocessing import forkserver
from pathlib import Path
from palmette.runtime.engines.forkserver import forkserver_context

if __name__ == "__main__":
    forkserver_context()
    status = Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text()
    print(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1])
"""
SIGINT_ALONE = 1 << 1


def test_it_is_deaf_to_ctrl_c_from_the_start() -> None:
    shown = subprocess.run([sys.executable, "-c", SHOW_BLOCKED], capture_output=True, text=True, timeout=60, check=True)
    assert int(shown.stdout, 16) == SIGINT_ALONE
